import type { DescMessage, Message } from "@bufbuild/protobuf";
import { type Any, authz, bank, createMessage, packAny } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import { type Actor, actorOf, SIGNERS } from "./actors.ts";
import { HANDLERS, type UnsignedStep } from "./live-chain.ts";
import { mutate } from "./mutate.ts";
import { type Make, PLAUSIBLE, type Setting } from "./plausible.ts";

/** Account that the genesis lets send the authority's messages. */
const GRANTEE: Actor = "dao";
const USUAL_FEE = [{ denom: "upokt", amount: 1n }] as const;
/** Gas and fee of a transaction whose form is not what is tried. */
export const USUAL = { gasLimit: 20_000_000n, fee: USUAL_FEE, memo: "" } as const;
const GAS_LIMITS = [USUAL.gasLimit, 0n, 1n, 100_000n, 2n ** 63n - 1n, 2n ** 63n] as const;
const FEES = [
  USUAL_FEE,
  [],
  [{ denom: "upokt", amount: 0n }],
  [{ denom: "upokt", amount: 1_000_000n }],
  [{ denom: "mact", amount: 1n }],
] as const;
const MEMOS = ["", "\u00e9".repeat(128), "a".repeat(256), "a".repeat(257), "\0"] as const;
const TIMEOUTS = [1, 599, 600, 601] as const;
const MAX_NESTING = 3;

function packed(schema: DescMessage, message: Message): Any {
  return packAny(schema, message);
}

function executed(grantee: Actor, message: Any): Any {
  const init = { grantee: SIGNERS[grantee].address, msgs: [message] };
  return packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, init));
}

const isAny = (): boolean => true;

function makerOf(chance: Chance, isDrawn: (typeUrl: string) => boolean): Make {
  const { actors, staking, authority } = PLAUSIBLE;
  const makers = chance.weighted<ReadonlyMap<string, Make>>([
    [7, actors],
    [2, staking],
    [3, authority],
  ]);
  const drawn = [...makers].flatMap(([typeUrl, make]) => (isDrawn(typeUrl) ? [make] : []));
  return chance.pick(drawn as unknown as readonly [Make, ...Make[]]);
}

/** A message and the actor that can sign it; undefined when no actor can. */
function signable(
  setting: Setting,
  isChanged: boolean,
  isDrawn: (typeUrl: string) => boolean = isAny,
): readonly [Actor, Any] | undefined {
  const { chance } = setting;
  const { schema, message } = makerOf(chance, isDrawn)(setting);
  if (isChanged) mutate(chance, schema, message);
  const typeUrl = `/${schema.typeName}`;
  const any = packed(schema, message);
  if (PLAUSIBLE.authority.has(typeUrl)) return [GRANTEE, executed(GRANTEE, any)];
  const [first = "", ...others] = HANDLERS.get(typeUrl)?.signers(message) ?? [];
  const actor = actorOf(first);
  if (actor === undefined || others.some((text) => actorOf(text) !== actor)) return undefined;
  let wrapped = any;
  for (let depth = 0; depth < MAX_NESTING && chance.often(0.1); depth++) wrapped = executed(actor, wrapped);
  return [actor, wrapped];
}

/**
 * A transaction of one message or several, plausible or changed at one to three places; undefined when no actor can sign.
 * @param isDrawn chooses by type URL; one of each kind at least
 */
export function drawStep(
  setting: Setting,
  isChanged: boolean,
  isDrawn?: (typeUrl: string) => boolean,
): UnsignedStep | undefined {
  const { chance } = setting;
  const first = signable(setting, isChanged, isDrawn);
  if (first === undefined) return undefined;
  const [signer, message] = first;
  const messages = [message];
  for (let i = 0; i < 3 && chance.often(0.15); i++) {
    const more = signable(setting, isChanged, isDrawn);
    if (more?.[0] === signer) messages.push(more[1]);
  }
  if (!isChanged || chance.often(0.9)) return { signer, messages, ...USUAL };
  return {
    signer,
    messages,
    gasLimit: chance.pick(GAS_LIMITS),
    fee: chance.pick(FEES),
    memo: chance.pick(MEMOS),
    ...(chance.often(0.5) ? { unorderedSeconds: chance.pick(TIMEOUTS) } : {}),
  };
}

/** A transfer. */
export function sendStep(from: Actor, to: Actor, amountUpokt: bigint): UnsignedStep {
  const amount = [{ denom: "upokt", amount: `${amountUpokt}` }];
  const send = { fromAddress: SIGNERS[from].address, toAddress: SIGNERS[to].address, amount };
  return { signer: from, messages: [packed(bank.MsgSendSchema, createMessage(bank.MsgSendSchema, send))], ...USUAL };
}
