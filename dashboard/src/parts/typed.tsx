import { useEffect, useId, useState } from "react";
import { setQuery } from "../routing";
import { cx } from "./basics";

/** Milliseconds after the last key. */
const PATIENCE = 300;

interface TypedProps {
  /** What it is called in the address. */
  name: string;
  value: string;
  label: string;
  className: string;
  /** What it could be. */
  known?: readonly string[];
}

/** What is typed goes into the address, so that a view can be passed on as a link. */
export function Typed({ name, value, label, className, known = [] }: TypedProps) {
  const list = useId();
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => setQuery({ [name]: typed }), PATIENCE);
    return () => clearTimeout(timer);
  }, [typed, value, name]);
  return (
    <>
      <input
        type="search"
        className={cx("field", className)}
        aria-label={label}
        placeholder={label}
        list={known.length > 0 ? list : undefined}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <datalist id={list}>
        {known.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}
