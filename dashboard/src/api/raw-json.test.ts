import { describe, expect, it } from "vitest";
import { base64Size, fieldsOf, itemsOf, jsonError, pretty } from "./raw-json";

describe("JSON as text", () => {
  it("keeps numbers that JavaScript would round", () => {
    expect(pretty('{"n":12345678901234567890,"e":1.0e+2}')).toBe(
      '{\n  "n": 12345678901234567890,\n  "e": 1.0e+2\n}',
    );
    // The control: parsing loses them.
    expect(JSON.stringify(JSON.parse("12345678901234567890"))).not.toBe("12345678901234567890");
  });

  it.each(["{}", "[]", "null", '""', "-0.5", "true"])("leaves %s as it is", (text) => {
    expect(pretty(text)).toBe(text);
  });

  it("reads brackets, commas and escapes inside strings", () => {
    const text = '{"a":"}{,:[\\"\\\\","b":[1,[2,{}]]}';
    expect(JSON.parse(pretty(text))).toEqual(JSON.parse(text));
  });

  it("splits an object into its fields", () => {
    const text = '{"id": "a", "payload": {"n": 1.10, "x": [1, {"y": 2}]}, "result": null, "e": ""}';
    expect(fieldsOf(text)).toEqual({
      id: '"a"',
      payload: '{"n": 1.10, "x": [1, {"y": 2}]}',
      result: "null",
      e: '""',
    });
  });

  it("splits a list into its items", () => {
    expect(itemsOf('[{"b": 1.0,\n "a": 1e400}, [ ], "x,]" , 12345678901234567890]')).toEqual([
      '{"b": 1.0,\n "a": 1e400}',
      "[ ]",
      '"x,]"',
      "12345678901234567890",
    ]);
    expect(itemsOf("[]")).toEqual([]);
  });

  it("finds syntax errors", () => {
    expect(jsonError("[1]")).toBeNull();
    expect(jsonError("[1")).toMatch(/JSON/);
  });

  it("recognizes a payload sent as base64", () => {
    expect(base64Size('{"base64":"AAEC","codec":"Backwards"}')).toBe(3);
    expect(base64Size('{"base64":"AA=="}')).toBe(1);
    expect(base64Size('{"base64":7}')).toBeNull();
    expect(base64Size("[1]")).toBeNull();
  });
});
