import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { type Any, authz, createMessage, encodeMessage, packAny, typeUrlOf } from "@turnpike/proto";
import { chanceOf } from "@turnpike/testkit/chance";
import { type Actor, actorOf, SIGNERS } from "./actors.ts";
import { HANDLERS, type LiveChain } from "./live-chain.ts";
import { PLAUSIBLE } from "./plausible.ts";
import { USUAL } from "./steps.ts";

/** A message with one part that is as large as a transaction can hold. */
export interface LimitCase {
  /** Type, field and form. */
  readonly name: string;
  readonly signer: Actor;
  readonly message: Any;
}

type Fields = Record<string, unknown>;

/** A field of a message or of a part of it, the way to set it, and its name. */
interface Place {
  readonly field: DescField;
  readonly name: string;
  readonly owner: Fields;
}

const ANY = "google.protobuf.Any";
const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

/** Texts, bytes and lists of a message and of its parts, each type of part once. */
function placesOf(schema: DescMessage, owner: Fields, path: string): Place[] {
  if (schema.typeName === ANY) return [];
  const places: Place[] = [];
  for (const field of schema.fields) {
    if (field.oneof !== undefined) continue;
    const name = `${path}.${field.localName}`;
    const value = owner[field.localName];
    const isLong =
      field.fieldKind === "list" || field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES;
    if (isLong) places.push({ field, name, owner });
    const part: unknown = Array.isArray(value) ? value[0] : value;
    if (field.message !== undefined && isFields(part)) places.push(...placesOf(field.message, part, name));
  }
  return places;
}

const FILLS = ["a", "9", "\u00e9", "/", "%", "-", "(", "\0"] as const;

function valuesFor({ field, owner }: Place, bytes: number): (readonly [form: string, make: () => unknown])[] {
  const value = owner[field.localName];
  if (field.fieldKind !== "list") {
    if (field.scalar === ScalarType.BYTES) return [["bytes", () => new Uint8Array(bytes)]];
    const start = typeof value === "string" ? value : "";
    return FILLS.map((fill) => {
      const make = (): string => `${start}${fill.repeat(Math.floor(bytes / Buffer.byteLength(fill)))}`;
      return [`text of ${JSON.stringify(fill)}`, make] as const;
    });
  }
  const list = value as readonly unknown[];
  const [first] = list;
  const element = first ?? (field.message === undefined ? "" : createMessage(field.message));
  const elementBytes =
    field.message === undefined ? `${element}`.length + 2 : encodeMessage(field.message, element as Message).length + 3;
  const empty = field.message === undefined ? "" : createMessage(field.message);
  return [
    ["list", () => Array.from({ length: Math.max(2, Math.floor(bytes / elementBytes)) }, () => element)],
    ["list of empty elements", () => Array.from({ length: Math.floor(bytes / 2) }, () => empty)],
  ];
}

/**
 * Every message type with every text, every bytes and every list as long as fits into these bytes; those of the authority
 * inside the `MsgExec` that carries them.
 * @param isTried chooses by the name of a case, before it is made
 */
export function* limitCases(
  chain: LiveChain,
  bytes: number,
  isTried: (name: string) => boolean = () => true,
): Generator<LimitCase> {
  const chance = chanceOf("limits");
  for (const [kind, makers] of Object.entries(PLAUSIBLE)) {
    for (const [typeUrl, make] of makers) {
      const { schema, message } = make({ chance, ctx: chain.context() });
      const [address = ""] = HANDLERS.get(typeUrl)?.signers(message) ?? [];
      const signer = kind === "authority" ? "dao" : (actorOf(address) ?? "faucet");
      for (const place of placesOf(schema, message as Message & Fields, typeUrl)) {
        const { owner, field, name } = place;
        const original = owner[field.localName];
        for (const [form, makeValue] of valuesFor(place, bytes)) {
          if (!isTried(`${name}: ${form}`)) continue;
          owner[field.localName] = makeValue();
          const any = packAny(schema, message);
          const wrapped = kind === "authority" ? executed(signer, [any]) : any;
          yield { name: `${name}: ${form}`, signer, message: wrapped };
          if (kind === "actors")
            yield { name: `${name}: ${form} in MsgExec`, signer, message: executed(signer, [any]) };
        }
        owner[field.localName] = original;
      }
    }
  }
  if (isTried("MsgExec")) yield* nestings(bytes);
}

function executed(actor: Actor, msgs: Any[]): Any {
  return packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: SIGNERS[actor].address, msgs }));
}

function* nestings(bytes: number): Generator<LimitCase> {
  const signer = "spare-1";
  const plain = PLAUSIBLE.actors.get(typeUrlOf(authz.MsgExecSchema));
  if (plain === undefined) return;
  let deep: Any = { $typeName: ANY, typeUrl: typeUrlOf(authz.MsgExecSchema), value: new Uint8Array(0) };
  for (let depth = 1; deep.value.length < Math.min(bytes, 200_000); depth++) {
    deep = executed(signer, [deep]);
    if ([1, 2, 6, 7, 8, 15, 16, 17, 64, 512].includes(depth))
      yield { name: `MsgExec ${depth} deep`, signer, message: deep };
  }
  yield { name: "MsgExec as deep as fits", signer, message: deep };
}

/** Runs a case in a block of its own on a branch. @returns the code of its transaction */
export function runLimitCase(chain: LiveChain, { signer, message }: LimitCase): number {
  const branch = chain.branch();
  const tx = branch.sign({ signer, messages: [message], ...USUAL, gasLimit: 2n ** 62n });
  const { results } = branch.run([tx]);
  return results[0]?.code ?? -1;
}
