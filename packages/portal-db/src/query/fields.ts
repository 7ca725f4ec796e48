import { utf8ToBytes } from "@turnpike/base";
import type { Field, JsonStep } from "./ast.ts";
import { MAX_JSON_STEPS, MAX_NAME_BYTES } from "./bounds.ts";
import type { Cursor } from "./cursor.ts";
import { tooMuch } from "./refusal.ts";

const NAME_CHARACTER = /^[\p{L}\p{Nd}_ $]$/u;
const KEY_ENDS = "(-:.,>)";
const EXPECTED_NAME = "field name (* or [a..z0..9_$])";
const MAX_INDEX = 2_147_483_647;

/** True for the characters of an unquoted name. */
function isNameCharacter(character: string): boolean {
  return NAME_CHARACTER.test(character);
}

/** `"…"` with backslash escapes; undefined when none stands here. */
export function quoted(cursor: Cursor): string | undefined {
  if (!cursor.takes('"')) return undefined;
  let value = "";
  for (;;) {
    if (cursor.isAtEnd()) throw cursor.fault('"\\""');
    if (cursor.takes('"')) return value;
    cursor.takes("\\");
    const character = cursor.peek();
    if (character === "") throw cursor.fault("any character");
    value += character;
    cursor.at += character.length;
  }
}

/** An identifier without quotes or dashes, trimmed. */
export function identifier(cursor: Cursor, expecting: string): string {
  const name = cursor.takeWhile(isNameCharacter).trim();
  if (name === "") throw cursor.fault(expecting);
  return checkedName(cursor, name);
}

/** The name of a column, table, alias or hint. */
export function fieldName(cursor: Cursor): string {
  const value = quoted(cursor);
  if (value !== undefined) {
    if (value === "") throw cursor.fault(EXPECTED_NAME);
    return checkedName(cursor, value);
  }
  return dashed(cursor, isNameCharacter, EXPECTED_NAME);
}

function dashed(cursor: Cursor, holds: (character: string) => boolean, expecting: string): string {
  const parts: string[] = [];
  for (;;) {
    const part = cursor.takeWhile(holds).trim();
    if (part === "") throw cursor.fault(expecting);
    parts.push(part);
    // a dash is part of the name unless it begins an arrow
    if (!cursor.sees("-") || cursor.sees("->")) return checkedName(cursor, parts.join("-"));
    cursor.at += 1;
  }
}

function checkedName(cursor: Cursor, name: string): string {
  if (utf8ToBytes(name).length > MAX_NAME_BYTES) throw cursor.fault(`a name of at most ${MAX_NAME_BYTES} bytes`);
  return name;
}

/** `->a->>0`; empty when no arrow stands here. */
export function jsonPath(cursor: Cursor): readonly JsonStep[] {
  const steps: JsonStep[] = [];
  while (cursor.sees("->")) {
    if (steps.length >= MAX_JSON_STEPS) throw tooMuch("steps of a JSON path", MAX_JSON_STEPS);
    const arrow = cursor.takes("->>") ? "->>" : "->";
    if (arrow === "->") cursor.expects("->");
    steps.push({ arrow, operand: jsonIndex(cursor) ?? jsonKey(cursor) });
  }
  return steps;
}

function jsonIndex(cursor: Cursor): number | undefined {
  const start = cursor.at;
  const isNegative = cursor.takes("-");
  const digits = cursor.takeWhile((character) => character >= "0" && character <= "9");
  const ends =
    cursor.isAtEnd() || ["->", "::", ".", ",", ")"].some((literal) => cursor.sees(literal)) || cursor.sees(":");
  if (digits === "" || !ends) {
    if (isNegative) throw cursor.fault("digit");
    cursor.at = start;
    return undefined;
  }
  const index = Number(digits);
  if (index > MAX_INDEX) throw cursor.fault(`an index up to ${MAX_INDEX}`);
  return isNegative && index !== 0 ? -index : index;
}

function jsonKey(cursor: Cursor): string {
  const value = quoted(cursor);
  return value ?? dashed(cursor, (character) => !KEY_ENDS.includes(character), "a JSON key");
}

/** A column with its JSON path, blanks around it skipped. */
export function field(cursor: Cursor): Field {
  cursor.skipBlanks();
  const name = fieldName(cursor);
  const json = jsonPath(cursor);
  cursor.skipBlanks();
  return { name, json };
}
