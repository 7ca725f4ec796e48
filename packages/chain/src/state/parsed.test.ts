import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";
import { encodeBech32, moduleAddress } from "@turnpike/crypto";
import {
  application,
  createMessage,
  encodeMessage,
  gateway,
  proof,
  service,
  shared,
  supplier,
  tokenomics,
  typeUrlOf,
} from "@turnpike/proto";
import { TestChain } from "../../test/run-message.ts";
import { pocketMachine } from "../app/pocket-machine.ts";
import { DEFAULT_TOKENOMICS_PARAMS, getTokenomicsParams } from "../modules/tokenomics/state.ts";
import { accountBytes, addressText, parseAccount } from "./addresses.ts";
import { createParsed, PAID_ACCOUNTS, parsedRecord, recordCodec } from "./parsed.ts";
import { readMessage } from "./read-message.ts";
import { textKindOf } from "./text-kinds.ts";

const ANNA = addressText(new Uint8Array(20).fill(1));
const BERT = addressText(new Uint8Array(32).fill(2));
const stake = { denom: "upokt", amount: "100000000" };
const endpoints = [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }];
const revShare = [{ address: BERT, revSharePercentage: 100n }];

interface Sample {
  readonly schema: DescMessage;
  readonly message: Message;
}
const sample = <Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Sample => ({
  schema,
  message: createMessage(schema, init),
});

/** A message without a fault of each type that has a text of PAID_ACCOUNTS at any depth. */
const SAMPLES: readonly Sample[] = [
  sample(application.MsgStakeApplicationSchema, { address: ANNA, stake, services: [{ serviceId: "a" }] }),
  sample(application.MsgTransferApplicationSchema, { sourceAddress: ANNA, destinationAddress: BERT }),
  sample(gateway.MsgStakeGatewaySchema, { address: ANNA, stake }),
  sample(proof.MsgSubmitProofSchema, {
    supplierOperatorAddress: ANNA,
    sessionHeader: {
      applicationAddress: BERT,
      serviceId: "a",
      sessionId: "a",
      sessionStartBlockHeight: 1n,
      sessionEndBlockHeight: 10n,
    },
    proof: Uint8Array.of(1),
  }),
  sample(service.MsgAddServiceSchema, {
    ownerAddress: ANNA,
    service: { id: "a", name: "a", computeUnitsPerRelay: 1n, ownerAddress: ANNA },
  }),
  sample(service.MsgTransferServiceSchema, { ownerAddress: ANNA, serviceId: "a", newOwnerAddress: BERT }),
  sample(supplier.MsgStakeSupplierSchema, {
    signer: ANNA,
    operatorAddress: ANNA,
    ownerAddress: BERT,
    stake,
    services: [{ serviceId: "a", endpoints, revShare }],
  }),
  sample(tokenomics.MsgUpdateParamsSchema, {
    authority: moduleAddress("gov"),
    params: { ...DEFAULT_TOKENOMICS_PARAMS },
  }),
];

const NO_ADDRESSES = [
  "",
  " ",
  "x",
  ANNA.slice(0, -1),
  `${ANNA}q`,
  `${ANNA.slice(0, 6)}${ANNA.slice(6).toUpperCase()}`,
  encodeBech32("poktvaloper", new Uint8Array(20).fill(1)),
  encodeBech32("cosmos", new Uint8Array(20).fill(1)),
  encodeBech32("pokt", new Uint8Array(0)),
  encodeBech32("pokt", new Uint8Array(256)),
];

const namesOf = ({ typeName }: DescMessage): readonly string[] =>
  Object.entries(PAID_ACCOUNTS).find(([name]) => name === typeName)?.[1] ?? [];

/** True when a message type has a text of PAID_ACCOUNTS, at any depth. */
function hasPaid(schema: DescMessage, seen = new Set<DescMessage>()): boolean {
  if (seen.has(schema)) return false;
  seen.add(schema);
  if (namesOf(schema).length > 0) return true;
  return schema.fields.some(({ message }) => message !== undefined && hasPaid(message, seen));
}

interface Text {
  readonly fields: Record<string, unknown>;
  readonly name: string;
}

/** Texts of PAID_ACCOUNTS in a message. */
function paidTexts(schema: DescMessage, message: Message): Text[] {
  const fields = message as unknown as Record<string, unknown>;
  const texts = namesOf(schema).map((name) => ({ fields, name }));
  for (const { message: inner, localName } of schema.fields) {
    if (inner === undefined) continue;
    const value = fields[localName];
    const items = (Array.isArray(value) ? value : value === undefined ? [] : [value]) as readonly Message[];
    texts.push(...items.flatMap((item) => paidTexts(inner, item)));
  }
  return texts;
}

suite("accounts that are paid are parsed once", () => {
  const { machine, modules } = pocketMachine({ gasPrices: [] });
  const handlers = new Map(modules.flatMap(({ messages = {} }) => Object.entries(messages)));

  test("each message with one has a sample, and each of these texts is an account's by its type", () => {
    const withPaid = [...handlers.values()].map(({ schema }) => schema).filter((schema) => hasPaid(schema));
    assert.deepEqual(
      withPaid.map(({ typeName }) => typeName).sort(),
      SAMPLES.map(({ schema }) => schema.typeName).sort(),
    );
    const genesis = modules.flatMap((module) => module.genesis?.message?.schema ?? []);
    const types = new Map<string, DescMessage>();
    const walk = (schema: DescMessage): void => {
      if (types.has(schema.typeName)) return;
      types.set(schema.typeName, schema);
      for (const { message } of schema.fields) if (message !== undefined) walk(message);
    };
    for (const schema of [...withPaid, ...genesis, shared.ServiceSchema]) walk(schema);
    for (const [typeName, names] of Object.entries(PAID_ACCOUNTS)) {
      const schema = types.get(typeName) ?? assert.fail(typeName);
      for (const name of names) {
        const field = schema.fields.find(({ localName }) => localName === name) ?? assert.fail(`${typeName}.${name}`);
        assert.equal(textKindOf(field, schema), "account", `${typeName}.${name}`);
      }
    }
  });

  for (const { schema, message } of SAMPLES) {
    test(`attack: ${schema.typeName} with an account that is none is refused before it runs`, () => {
      const handler = handlers.get(typeUrlOf(schema)) ?? assert.fail();
      const bytes = encodeMessage(schema, message);
      const read = (): Message => {
        const decoded = readMessage(schema, bytes);
        assert.ok(decoded.ok);
        return decoded.message;
      };
      assert.equal(handler.validate(read()), undefined);
      const count = paidTexts(schema, read()).length;
      assert.ok(count > 0);
      for (let i = 0; i < count; i++) {
        for (const text of NO_ADDRESSES) {
          const broken = read();
          const { fields, name } = paidTexts(schema, broken)[i] ?? assert.fail();
          fields[name] = text;
          assert.notEqual(handler.validate(broken), undefined, `${name}: ${text}`);
        }
      }
    });

    test(`${schema.typeName}: accounts in capitals become their one form when it is decoded`, () => {
      const copy = readMessage(schema, encodeMessage(schema, message));
      assert.ok(copy.ok);
      const forms = paidTexts(schema, copy.message).map(({ fields, name }) => fields[name]);
      for (const { fields, name } of paidTexts(schema, copy.message)) fields[name] = String(fields[name]).toUpperCase();
      const decoded = readMessage(schema, encodeMessage(schema, copy.message));
      assert.ok(decoded.ok);
      assert.deepEqual(
        paidTexts(schema, decoded.message).map(({ fields, name }) => fields[name]),
        forms,
      );
    });
  }

  test("attack: a record of a genesis with an account that is none, at any depth, is refused, and capitals become the one form", () => {
    const supplierOf = (ownerAddress: string, address: string): shared.Supplier =>
      createMessage(shared.SupplierSchema, {
        ownerAddress,
        services: [{ serviceId: "a", revShare: [{ address, revSharePercentage: 100n }] }],
        serviceConfigHistory: [{ service: { serviceId: "a", revShare: [{ address, revSharePercentage: 100n }] } }],
      });
    for (const text of NO_ADDRESSES) {
      assert.throws(() => parsedRecord(supplierOf(text, BERT)), { code: "CONFIG_INVALID" });
      assert.throws(() => parsedRecord(supplierOf(ANNA, text)), { code: "CONFIG_INVALID" });
    }
    const codec = recordCodec(shared.SupplierSchema);
    const parsed = parsedRecord(supplierOf(ANNA.toUpperCase(), BERT.toUpperCase()));
    assert.deepEqual(codec.decode(codec.encode(parsed)), supplierOf(ANNA, BERT));
  });

  test("attack: the DAO of a parameter and a service's owner of a genesis, in capitals, are the accounts that they name", () => {
    const list = [{ id: "a", name: "a", compute_units_per_relay: "1", owner_address: ANNA.toUpperCase() }];
    const chain = new TestChain(
      { heightBlocks: 5n, appState: { service: { service_list: list } } },
      { machine, handlers },
    );
    const transfer = { ownerAddress: ANNA, serviceId: "a", newOwnerAddress: BERT };
    assert.ok(chain.send(service.MsgTransferServiceSchema, transfer).ok);
    const dao = {
      authority: moduleAddress("gov"),
      name: "dao_reward_address",
      asType: { case: "asString" as const, value: BERT.toUpperCase() },
    };
    assert.ok(chain.send(tokenomics.MsgUpdateParamSchema, dao).ok);
    assert.equal(getTokenomicsParams(chain.ctx).daoRewardAddress, BERT);
  });

  test("an account's bytes are those of its text, of every length that the SDK pays", () => {
    for (const length of [1, 20, 32, 255]) {
      const bytes = new Uint8Array(length).fill(7);
      const parsed = parseAccount(addressText(bytes).toUpperCase());
      assert.ok(parsed.ok);
      assert.equal(parsed.value, addressText(bytes));
      assert.deepEqual(accountBytes(parsed.value), bytes);
      assert.equal(addressText(accountBytes(parsed.value)), parsed.value);
    }
  });

  test("texts and bytes that were not parsed do not pass for those that were", () => {
    const owner = parseAccount(ANNA);
    assert.ok(owner.ok);
    createParsed(shared.ServiceSchema, { ownerAddress: owner.value });
    // @ts-expect-error a text that was not parsed
    createParsed(shared.ServiceSchema, { ownerAddress: ANNA });
    // @ts-expect-error no owner at all
    createParsed(shared.ServiceSchema, { id: "a" });
    // @ts-expect-error a text that was not parsed, two messages deep
    createParsed(shared.SupplierServiceConfigSchema, { revShare });
    // @ts-expect-error a text that was not parsed
    assert.deepEqual(accountBytes(ANNA), new Uint8Array(20).fill(1));
  });
});
