import { describe, expect, it } from "vitest";
import { fieldsOf, itemsOf, mistakeIn, packedBytes, pretty } from "./raw";

describe("JSON as it was written", () => {
  it("keeps numbers that JavaScript would round", () => {
    expect(pretty('{"n":12345678901234567890,"e":1.0e+2}')).toBe(
      '{\n  "n": 12345678901234567890,\n  "e": 1.0e+2\n}',
    );
    // The control: the usual way loses them.
    expect(JSON.stringify(JSON.parse("12345678901234567890"))).not.toBe("12345678901234567890");
  });

  it.each(["{}", "[]", "null", '""', "-0.5", "true"])("leaves %s as it is", (text) => {
    expect(pretty(text)).toBe(text);
  });

  it("reads strings with brackets, commas and escapes as one", () => {
    const text = '{"a":"}{,:[\\"\\\\","b":[1,[2,{}]]}';
    expect(JSON.parse(pretty(text))).toEqual(JSON.parse(text));
  });

  it("takes the fields of an object apart", () => {
    const text = '{"id": "a", "payload": {"n": 1.10, "x": [1, {"y": 2}]}, "result": null, "e": ""}';
    expect(fieldsOf(text)).toEqual({
      id: '"a"',
      payload: '{"n": 1.10, "x": [1, {"y": 2}]}',
      result: "null",
      e: '""',
    });
  });

  it("takes the items of a list apart", () => {
    expect(itemsOf('[{"b": 1.0,\n "a": 1e400}, [ ], "x,]" , 12345678901234567890]')).toEqual([
      '{"b": 1.0,\n "a": 1e400}',
      "[ ]",
      '"x,]"',
      "12345678901234567890",
    ]);
    expect(itemsOf("[]")).toEqual([]);
  });

  it("says what is wrong", () => {
    expect(mistakeIn("[1]")).toBeNull();
    expect(mistakeIn("[1")).toMatch(/JSON/);
  });

  it("knows a payload that is not JSON", () => {
    expect(packedBytes('{"base64":"AAEC","codec":"Backwards"}')).toBe(3);
    expect(packedBytes('{"base64":"AA=="}')).toBe(1);
    expect(packedBytes('{"base64":7}')).toBeNull();
    expect(packedBytes("[1]")).toBeNull();
  });
});
