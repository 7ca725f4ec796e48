import assert from "node:assert/strict";
import type { Message } from "@bufbuild/protobuf";
import type { AccountAddress } from "@turnpike/base";
import { parseAccount } from "../src/state/addresses.ts";
import type { Parsed } from "../src/state/parsed.ts";

/** A record or a message as a test needs it, whose accounts may be none. */
export function planted<T extends Message>(record: T): Parsed<T> {
  return record as Parsed<T>;
}

/** The account of a text that is an address. */
export function accountOf(text: string): AccountAddress {
  const parsed = parseAccount(text);
  assert.ok(parsed.ok, text);
  return parsed.value;
}
