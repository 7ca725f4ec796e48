import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { type Any, createMessage, encodeMessage, schemaOfTypeUrl } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";

/** What random messages are made of. */
export interface MessageWorld {
  /** Type URLs of the messages that transactions may hold. */
  readonly typeUrls: readonly [string, ...string[]];
  /** Accounts, modules, validators, and texts that are no address. */
  readonly addresses: readonly [string, ...string[]];
}

const AMOUNTS = [
  "1",
  "0",
  "-1",
  "1000",
  "99999999999999999999",
  `1${"0".repeat(60)}`,
  `${2n ** 256n}`,
  `1${"0".repeat(400)}`,
  "1e9",
  "0x10",
  "1.5",
  " 1",
  "",
  "NaN",
] as const;
const DENOMS = [
  "upokt",
  "upokt",
  "pokt",
  "",
  "UPOKT",
  "ibc/AA",
  "a",
  "x".repeat(200),
  "u\u0000pokt",
  "../upokt",
] as const;
const TEXTS = [
  "",
  "eth",
  "rest",
  "a",
  "x".repeat(300),
  "\u0000",
  "\u202e\ud83d\ude80",
  "__proto__",
  "constructor",
  "../../etc",
  "http://127.0.0.1:1",
  "http://[::1",
  "javascript:0",
  "-1",
  "18446744073709551616",
  "%00%ff",
  "' OR 1=1",
  "{{}}",
] as const;
const FLOATS = [0, -0, 1, 0.5, -1, 2 ** 53, 1e308, 5e-324, Number.NaN, Number.POSITIVE_INFINITY] as const;

/** An amount of money, mostly none that can be paid. */
export function hostileCoin(chance: Chance): { denom: string; amount: string } {
  return { denom: chance.pick(DENOMS), amount: chance.pick(AMOUNTS) };
}

function scalar(chance: Chance, world: MessageWorld, type: ScalarType, name: string): unknown {
  switch (type) {
    case ScalarType.STRING:
      if (/address|authority|signer|grant|owner|delegat/.test(name)) return chance.pick(world.addresses);
      if (name === "denom") return chance.pick(DENOMS);
      return name === "amount" || chance.often(0.1) ? chance.pick(AMOUNTS) : chance.pick(TEXTS);
    case ScalarType.BYTES:
      return chance.bytes(chance.pick([0, 1, 20, 32, 33, 48, 64, 300]));
    case ScalarType.BOOL:
      return chance.often(0.5);
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return type === ScalarType.FLOAT ? Math.fround(chance.pick([0, 1, 0.5, -1, Number.NaN])) : chance.pick(FLOATS);
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return BigInt.asIntN(64, chance.wide());
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return chance.wide();
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return Number(BigInt.asUintN(32, chance.wide()));
    default:
      return Number(BigInt.asIntN(32, chance.wide()));
  }
}

function fieldValue(chance: Chance, world: MessageWorld, one: DescField, depth: number): unknown {
  const single = (): unknown => {
    if (one.message !== undefined) return randomMessage(chance, world, one.message, depth - 1);
    if (one.enum !== undefined) return chance.often(0.8) ? chance.below(5) : 2_147_483_647;
    return scalar(chance, world, one.scalar ?? ScalarType.INT32, one.name);
  };
  if (one.fieldKind === "map") return {};
  if (one.fieldKind !== "list") return single();
  const count = chance.often(0.02) ? 40 : chance.below(3);
  return Array.from({ length: count }, single);
}

/** A message of a type with any values in its fields. */
export function randomMessage(
  chance: Chance,
  world: MessageWorld,
  schema: DescMessage,
  depth: number,
): ReturnType<typeof createMessage> {
  const message = createMessage(schema) as ReturnType<typeof createMessage> & Record<string, unknown>;
  if (depth <= 0) return message;
  if (schema.typeName === "google.protobuf.Any") return Object.assign(message, randomAny(chance, world, depth - 1));
  if (schema.typeName === "cosmos.base.v1beta1.Coin") return Object.assign(message, hostileCoin(chance));
  for (const one of schema.members) {
    if (chance.often(0.12)) continue;
    if (one.kind === "field") {
      message[one.localName] = fieldValue(chance, world, one, depth);
      continue;
    }
    const [first, ...rest] = one.fields;
    if (first === undefined) continue;
    const member = chance.pick([first, ...rest]);
    message[one.localName] = { case: member.localName, value: fieldValue(chance, world, member, depth) };
  }
  return message;
}

/** A random message of a random type, packed. */
export function randomAny(chance: Chance, world: MessageWorld, depth = 5): Any {
  const typeUrl = chance.pick(world.typeUrls);
  const schema = schemaOfTypeUrl(typeUrl);
  const value =
    schema === undefined ? chance.bytes(20) : encodeMessage(schema, randomMessage(chance, world, schema, depth));
  return { $typeName: "google.protobuf.Any", typeUrl, value };
}
