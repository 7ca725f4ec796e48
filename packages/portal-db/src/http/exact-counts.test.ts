import assert from "node:assert/strict";
import { test } from "node:test";
import type { Preferences, TableRequest } from "../types.ts";
import { withSafeCount } from "./exact-counts.ts";

const asking = (count: Preferences["count"]): TableRequest => ({
  verb: "GET",
  table: "portal_applications",
  query: "",
  rows: undefined,
  preferences: {
    return: undefined,
    count,
    resolution: undefined,
    missing: undefined,
    handling: undefined,
    maxAffected: undefined,
    applied: [`count=${count}`],
  },
  range: undefined,
  media: "json",
  stripsNulls: false,
});

test("a token of an account is never told the planner's estimates, which are of all accounts' rows", () => {
  for (const count of ["planned", "estimated", "exact"] as const) {
    assert.equal(withSafeCount(asking(count), { accountId: "one" }).preferences.count, "exact");
    assert.equal(withSafeCount(asking(count), { accountId: undefined }).preferences.count, count);
  }
  assert.equal(withSafeCount(asking(undefined), { accountId: "one" }).preferences.count, undefined);
});
