import assert from "node:assert/strict";
import { test } from "node:test";
import { sameAddress } from "./brand.ts";
import * as api from "./index.ts";
import { hostOf } from "./log.ts";

test("only the host of an upstream's URL is logged", () => {
  assert.equal(hostOf("https://user:secret@node.example:8545/v2/api-key?token=1"), "node.example:8545");
  assert.equal(hostOf("not a url with a key"), "invalid-url");
});

test("addresses are the same in any letter case", () => {
  assert.ok(sameAddress("0xAbCd", "0xaBcD"));
  assert.ok(!sameAddress("0xAbCd", "0xAbCe"));
});

test("base names its exports", () => {
  assert.deepEqual(
    Object.keys(api).sort((a, b) => (a < b ? -1 : 1)),
    [
      "AppError",
      "BatchThreads",
      "BusListeners",
      "Deadlines",
      "DenseList",
      "ERRORS",
      "MAX_BUS_MESSAGE_BYTES",
      "RETIRED_CODES",
      "andThen",
      "asBuffer",
      "base64ToBytes",
      "bytesEqual",
      "bytesToBase64",
      "bytesToHex",
      "bytesToHex0x",
      "bytesToUtf8",
      "checkedLookup",
      "clientKey",
      "commandLineOf",
      "concatBytes",
      "createClientIp",
      "createHostCheck",
      "createProxyCheck",
      "decimalToUnits",
      "errorBody",
      "errorRow",
      "failureCode",
      "hasLoneSurrogate",
      "hexToBytes",
      "hopJsonMembers",
      "hostOf",
      "isAlive",
      "isAppError",
      "isEngineLimit",
      "isLoopbackHost",
      "isLoopbackUrl",
      "isPrivateHost",
      "isPublicAddress",
      "isRecord",
      "joinBuses",
      "joinJsonArray",
      "jsonElementSpans",
      "jsonMemberSpans",
      "jsonText",
      "jsonValueEnd",
      "nearest",
      "noBus",
      "noFaults",
      "noMetrics",
      "noSpan",
      "noTracer",
      "parseIp",
      "parseJson",
      "readPidFile",
      "sameAddress",
      "serveBatches",
      "silentLog",
      "skipJsonSpace",
      "startOf",
      "systemClock",
      "thrownCode",
      "truncateIp",
      "unitsToDecimal",
      "utf8ToBytes",
      "withCleanup",
      "writeAtomically",
      "writePidFile",
    ],
  );
});
