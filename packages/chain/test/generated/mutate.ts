import { type DescField, type DescMessage, type DescOneof, type Message, ScalarType } from "@bufbuild/protobuf";
import { type Any, createMessage, encodeMessage, unpackAny } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import { edgeValue } from "./edges.ts";

/** One way to change a message. */
type Change = (chance: Chance) => void;
type Fields = Record<string, unknown>;

const ANY = "google.protobuf.Any";
/** Elements of a list whose fields are changed; the others are like them. */
const MAX_ELEMENTS = 3;
const LONG_LISTS = [8, 17, 64, 200] as const;
const UNKNOWN_ENUMS = [-1, 5, 42, 2_147_483_647] as const;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

function singleValue(chance: Chance, field: DescField): unknown {
  if (field.message !== undefined) return edgeMessage(chance, field.message, 3);
  if (field.enum !== undefined) {
    const { values } = field.enum;
    const numbers = values.map(({ number }) => number);
    return chance.pick([0, ...numbers, ...UNKNOWN_ENUMS]);
  }
  return edgeValue(chance, field, field.scalar ?? ScalarType.INT32);
}

/** A message all of whose fields are at edges. */
function edgeMessage(chance: Chance, schema: DescMessage, depth: number): Message {
  const message = createMessage(schema) as Message & Fields;
  if (depth <= 0 || schema.typeName === ANY) return message;
  for (const field of schema.fields) {
    if (field.oneof !== undefined || field.fieldKind === "map" || chance.often(0.2)) continue;
    const value = field.fieldKind === "list" ? [singleValue(chance, field)] : singleValue(chance, field);
    message[field.localName] = value;
  }
  return message;
}

function listChanges(target: Fields, field: DescField): Change[] {
  const listOf = (): unknown[] => [...(target[field.localName] as unknown[])];
  const set = (list: unknown[]): void => {
    target[field.localName] = list;
  };
  const changes: Change[] = [
    () => set([]),
    () => set(listOf().slice(1)),
    () => set(listOf().reverse()),
    () => set([...listOf(), ...listOf()]),
    (chance) => set([...listOf(), singleValue(chance, field)]),
    (chance) => {
      const list = listOf();
      const length = chance.pick(LONG_LISTS);
      set(Array.from({ length }, (_, index) => list[index % Math.max(1, list.length)] ?? singleValue(chance, field)));
    },
  ];
  if (field.message === undefined) return [...changes, (chance) => set([singleValue(chance, field)])];
  const elements = (target[field.localName] as unknown[]).slice(0, MAX_ELEMENTS);
  const { message: schema } = field;
  for (const element of elements) if (isFields(element)) changes.push(...changesOf(schema, element));
  return changes;
}

function oneofChanges(target: Fields, oneof: DescOneof): Change[] {
  const current = target[oneof.localName] as { case?: string; value?: unknown };
  const changes: Change[] = [
    () => {
      target[oneof.localName] = { case: undefined };
    },
    ...oneof.fields.map(
      (field): Change =>
        (chance) => {
          target[oneof.localName] = { case: field.localName, value: singleValue(chance, field) };
        },
    ),
  ];
  const field = oneof.fields.find(({ localName }) => localName === current.case);
  if (field === undefined) return changes;
  if (field.message !== undefined && isFields(current.value)) changes.push(...changesOf(field.message, current.value));
  // Twice: a value of the right kind passes further than one of another.
  for (let i = 0; i < 2; i++) {
    changes.push((chance) => {
      target[oneof.localName] = { case: field.localName, value: singleValue(chance, field) };
    });
  }
  return changes;
}

function anyChanges(target: Fields): Change[] {
  const inside: Change = (chance) => {
    const unpacked = unpackAny(target as unknown as Any);
    if (!unpacked.ok) return;
    const { schema, message } = unpacked.message;
    mutate(chance, schema, message);
    target.value = encodeMessage(schema, message);
  };
  return [
    inside,
    inside,
    inside,
    () => {
      target.value = new Uint8Array(0);
    },
    (chance) => {
      target.value = chance.bytes(chance.pick([1, 2, 34, 300]));
    },
    (chance) => {
      target.typeUrl = chance.pick([
        "",
        "/",
        "/cosmos.crypto.secp256k1.PubKey",
        "/cosmos.crypto.ed25519.PubKey",
        "/cosmos.authz.v1beta1.GenericAuthorization",
        "/cosmos.authz.v1beta1.MsgExec",
        "/nosuch.Type",
      ]);
    },
  ];
}

function fieldChanges(target: Fields, field: DescField): Change[] {
  if (field.fieldKind === "map") return [];
  if (field.fieldKind === "list") return listChanges(target, field);
  const setEdge: Change = (chance) => {
    target[field.localName] = singleValue(chance, field);
  };
  if (field.fieldKind !== "message") return [setEdge];
  const value = target[field.localName];
  const drop: Change = () => {
    target[field.localName] = undefined;
  };
  return isFields(value) ? [drop, setEdge, ...changesOf(field.message, value)] : [setEdge];
}

function changesOf(schema: DescMessage, target: Fields): Change[] {
  if (schema.typeName === ANY) return anyChanges(target);
  return schema.members.flatMap((member) =>
    member.kind === "field" ? fieldChanges(target, member) : oneofChanges(target, member),
  );
}

/** Changes one to three places of a message, in place: fields to edges, optional parts away, lists shorter and longer. */
export function mutate(chance: Chance, schema: DescMessage, message: Message): void {
  const count = chance.weighted([
    [6, 1],
    [3, 2],
    [1, 3],
  ]);
  for (let i = 0; i < count; i++) {
    const [first, ...others] = changesOf(schema, message as Message & Fields);
    if (first !== undefined) chance.pick([first, ...others])(chance);
  }
}
