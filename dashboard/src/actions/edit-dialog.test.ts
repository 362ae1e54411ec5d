import { describe, expect, it } from "vitest";
import type { Job } from "../api/jobs";
import { undoEdit } from "./edit-dialog";

describe("the undo of an edit", () => {
  const job = { payload: "[1]", priority: 5, run_at: 1060 } as Job;
  it("restores what was changed, and nothing else", () => {
    expect(undoEdit(job, { priority: 8 }, 1000)).toEqual({ priority: 5 });
    expect(undoEdit(job, { payload: "[2]", delay: 3600 }, 1000)).toEqual({ payload: "[1]", delay: 60 });
    expect(undoEdit({ ...job, run_at: null }, { delay: 3600 }, 1000)).toEqual({ delay: 0 });
  });
});
