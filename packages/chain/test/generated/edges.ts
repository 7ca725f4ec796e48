import { type DescField, ScalarType } from "@bufbuild/protobuf";
import { ACCOUNT_PREFIX, encodeBech32, moduleAddress, VALIDATOR_PREFIX } from "@turnpike/crypto";
import type { Chance } from "@turnpike/testkit/chance";
import { parseAddress } from "../../src/state/addresses.ts";
import { ACTORS, SERVICES, SIGNERS } from "./actors.ts";

type Some<T> = readonly [T, ...(readonly T[])];

const bytesOf = (length: number, fill = 7): Uint8Array => new Uint8Array(length).fill(fill);
const accounts = ACTORS.map((actor) => SIGNERS[actor].address);
const operatorTexts = (["validator", "validator-2", "spare-1"] as const).flatMap((actor) => {
  const address = parseAddress(SIGNERS[actor].address);
  return address.ok ? [encodeBech32(VALIDATOR_PREFIX, address.value)] : [];
});
const MODULES = [
  "gov",
  "fee_collector",
  "bonded_tokens_pool",
  "application",
  "supplier",
  "tokenomics",
  "mint",
  "session",
];

/** Texts in the place of addresses: accounts, modules, every length of bytes, other prefixes, other letters. */
export const ADDRESSES: Some<string> = [
  "",
  ...accounts,
  ...MODULES.map(moduleAddress),
  ...[1, 2, 19, 20, 21, 32, 33, 64, 255].map((length) => encodeBech32(ACCOUNT_PREFIX, bytesOf(length))),
  ...[32, 32, 32, 1, 255].map((length, index) => encodeBech32(ACCOUNT_PREFIX, bytesOf(length, index))),
  ...operatorTexts,
  ...[1, 20, 32, 255].map((length) => encodeBech32(VALIDATOR_PREFIX, bytesOf(length))),
  encodeBech32("cosmos", bytesOf(20)),
  encodeBech32("poktvalcons", bytesOf(20)),
  ...accounts.slice(0, 6).map((text) => text.toUpperCase()),
  ` ${accounts[0]}`,
  `${accounts[0]} `,
  `${accounts[0]}\0`,
  accounts[1]?.replace("pokt", "Pokt") ?? "",
  "pokt1",
  "\u00e9".repeat(20),
];

const POWERS = [63n, 64n, 127n, 128n, 255n, 256n, 315n, 316n].flatMap((bits) => [
  (2n ** bits - 1n).toString(),
  (2n ** bits).toString(),
]);
/** Texts in the place of whole numbers and decimals. */
export const NUMBERS: Some<string> = [
  "",
  ..."0 1 -0 -1 +1 +0 00 01 007 1e3 1E3 .1 0.5 1. 1.0 0x10 0b1 1_000 NaN Infinity -".split(" "),
  ..." 1|1 |\t1|1\n|١|１|1\u00002|−1|1,000|½".split("|"),
  ..."999999 1000000 1000001 999999999 1000000000 1000000001 100000000000 42000000".split(" "),
  "000000000000000000001000000",
  "-1000000",
  "999999999999999999",
  `${10n ** 18n}`,
  `${10n ** 18n + 1n}`,
  `${5n * 10n ** 17n}`,
  `-${10n ** 18n}`,
  "100000000000000000",
  ...POWERS,
  `-${2n ** 63n}`,
  "9".repeat(78),
  "9".repeat(95),
  "1".repeat(400),
];

/** Texts in the place of rates, which are decimals of 18 places without their point. */
const RATES: Some<string> = [
  "0",
  ..."0 -0 +0 00 -00 1 -1 +1 0.5 .5 1.0 1e17".split(" "),
  ...[
    "",
    " ",
    "0100000000000000000",
    "999999999999999999",
    `${10n ** 18n}`,
    `${10n ** 18n + 1n}`,
    `${5n * 10n ** 17n}`,
  ],
  `-${10n ** 17n}`,
];

/** Texts in the place of denominations. */
export const DENOMS: Some<string> = [
  "upokt",
  "upokt",
  "mact",
  "stake",
  "UPOKT",
  "uPokt",
  "",
  "ab",
  "abc",
  "a".repeat(128),
  "a".repeat(129),
  "ibc/0123456789ABCDEF",
  "a:/._-b",
  "1upokt",
  "upokt ",
  "up\0okt",
  "\u00e9\u00e9\u00e9",
  "__proto__",
  "constructor",
];

/** Texts in the place of names, ids, links and descriptions. */
export const TEXTS: Some<string> = [
  "",
  ...SERVICES,
  "a",
  "A",
  "_",
  "-",
  "a b",
  "a/b",
  "a|b,c",
  "a\0b",
  "ETH",
  "__proto__",
  "constructor",
  "toString",
  "\u00e9",
  "\u0130",
  "\u212a",
  "\u202e\u{1f680}",
  "e\u0301",
  "\ufeffeth",
  "\ufffd",
  "\u{10ffff}",
  "true",
  "null",
  "%s%n",
  "http://a",
  "https://a.example/x",
  "http://[::1]:80",
  "ws://a",
  "http://a.example:65536",
  "HTTP://A.EXAMPLE",
  "http://\u00e9.example",
  "http://user:password@a.example/?q#f",
  "ftp://a",
  "//a",
  ...[41, 42, 43, 69, 70, 71, 140, 169, 170, 255, 256, 280, 281, 3_000, 3_001].map((length) => "a".repeat(length)),
  "\u00e9".repeat(35),
  "\u{1f680}".repeat(300),
  `http://${"a".repeat(2_000)}.example`,
  "/pocket.supplier.MsgStakeSupplier",
  "/cosmos.authz.v1beta1.MsgExec",
];

const UINTS: Some<bigint> = [
  ...[0n, 1n, 2n, 3n, 4n, 5n, 7n, 10n, 20n, 50n, 99n, 100n, 101n, 255n, 256n, 1_000n, 1_048_576n, 2_097_152n],
  ...[2_097_153n, 42_000_000n, 10n ** 9n, 10n ** 12n, 10n ** 18n],
  ...[2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, 2n ** 63n],
  2n ** 64n - 1n,
] as unknown as Some<bigint>;
const INTS: Some<bigint> = [
  ...[0n, 1n, 2n, 13n, 16n, 17n, 20n, -1n, -4n, 999_999_999n, 1_000_000_000n, 1_814_400n],
  ...[253_402_300_799n, 253_402_300_800n, 9_223_372_036n, 9_223_372_037n, -62_135_596_800n, 2n ** 31n, 2n ** 53n],
  ...[2n ** 63n - 1n, -(2n ** 63n)],
] as unknown as Some<bigint>;
const SMALL: Some<number> = [0, 1, 2, 3, 7, 100, 999_999_999, 1_000_000_000, -1, 2 ** 31 - 1, -(2 ** 31)];
const FLOATS: Some<number> = [
  ...[0, -0, 1, 0.5, 0.25, 0.1, 0.05, 1 / 3, 1e-9, 1e-18, 5e-324, Number.EPSILON, 1 - 2 ** -53, 1 + 2 ** -52],
  ...[2, 10, -1, -1e-9, 1e18, 2 ** 53, 2 ** 63, 2 ** 64, 1e308, Number.MAX_VALUE],
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
] as unknown as Some<number>;
const LENGTHS: Some<number> = [0, 1, 20, 31, 32, 33, 40, 48, 64, 65, 96, 300, 4_096];

const ADDRESS_FIELD = /address|authority|signer|grant(er|ee)|owner|delegat/i;
const RATE_FIELD = /rate$/i;
const NUMBER_FIELD = /^amount$|selfDelegation$|tokens$|shares$|^total|balance/i;

/** A value at an edge for a scalar field, by its type and by what its name says that it is. */
export function edgeValue(chance: Chance, field: DescField, type: ScalarType): unknown {
  const name = field.localName;
  switch (type) {
    case ScalarType.STRING: {
      if (chance.often(0.03))
        return chance.pick([...ADDRESSES, ...NUMBERS, ...DENOMS, ...TEXTS] as unknown as Some<string>);
      if (/denom/i.test(name)) return chance.pick(DENOMS);
      if (RATE_FIELD.test(name)) return chance.pick(chance.often(0.8) ? RATES : NUMBERS);
      if (NUMBER_FIELD.test(name)) return chance.pick(NUMBERS);
      if (ADDRESS_FIELD.test(name)) return chance.pick(ADDRESSES);
      return chance.pick(TEXTS);
    }
    case ScalarType.BYTES:
      return chance.bytes(chance.pick(LENGTHS));
    case ScalarType.BOOL:
      return chance.often(0.5);
    case ScalarType.DOUBLE:
      return chance.pick(FLOATS);
    case ScalarType.FLOAT:
      return Math.fround(chance.pick(FLOATS));
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return chance.pick(UINTS);
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return chance.pick(INTS);
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return chance.pick(SMALL) >>> 0;
    default:
      return chance.pick(SMALL);
  }
}
