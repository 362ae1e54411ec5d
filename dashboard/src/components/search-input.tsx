import { useEffect, useId, useState } from "react";
import { setQuery } from "../routing";
import { cx } from "./basics";

/** Milliseconds after the last keystroke. */
const DEBOUNCE = 300;

interface SearchInputProps {
  /** The query parameter that holds the value. */
  name: string;
  value: string;
  label: string;
  className: string;

  suggestions?: readonly string[];
}

/** A text filter that is kept in the address, so that a view can be shared as a link. */
export function SearchInput({ name, value, label, className, suggestions = [] }: SearchInputProps) {
  const listId = useId();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => setQuery({ [name]: text }), DEBOUNCE);
    return () => clearTimeout(timer);
  }, [text, value, name]);
  return (
    <>
      <input
        type="search"
        className={cx("field", className)}
        aria-label={label}
        placeholder={label}
        list={suggestions.length > 0 ? listId : undefined}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <datalist id={listId}>
        {suggestions.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}
