export { FieldTable } from "./field-table.ts";
export { contentLength, Head, type HeadLimits, HeadParser, INCOMPLETE, isWord, REFUSED } from "./head.ts";
