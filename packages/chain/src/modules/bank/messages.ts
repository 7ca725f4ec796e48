import type { AddressBytes } from "@turnpike/base";
import { bank, type base, createMessage, typeUrlOf } from "@turnpike/proto";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import { type Context, chainEvent } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { ensureAccount } from "../auth/accounts.ts";
import { bankParams, receiveCoins, sendEnabled, spendCoins } from "./balances.ts";
import { addCoins, areValidCoins, type Coin, coinsText, isDenom, rawCoinsText, readCoins, upoktIn } from "./coins.ts";
import { BANK, checkReceiver, checkSendEnabled, sendCoins } from "./transfers.ts";

/** What bank messages need to know of the chain. */
export interface BankMessageOptions {
  /** Addresses that messages may not send to. */
  readonly blocked: ReadonlySet<string>;
  /** Address whose messages change parameters. */
  readonly authority: string;
}

function positiveCoins(raw: readonly base.Coin[]): Outcome<Coin[]> {
  const coins = readCoins(raw);
  if (coins === undefined || coins.length === 0 || !areValidCoins(coins)) {
    return fail(SDK.invalidCoins, rawCoinsText(raw));
  }
  return done(coins);
}

function party(text: string, which: string): Outcome<AddressBytes> {
  const address = parseAddress(text);
  return address.ok ? address : fail(SDK.invalidAddress, `invalid ${which} address: ${addressFault(text) ?? ""}`);
}

function send(ctx: Context, message: bank.MsgSend, { blocked }: BankMessageOptions): Outcome<bank.MsgSendResponse> {
  const from = party(message.fromAddress, "from");
  if (!from.ok) return from;
  const to = party(message.toAddress, "to");
  if (!to.ok) return to;
  const coins = positiveCoins(message.amount);
  if (!coins.ok) return coins;
  const enabled = checkSendEnabled(ctx, coins.value);
  if (!enabled.ok) return enabled;
  const allowed = checkReceiver(blocked, to.value);
  if (!allowed.ok) return allowed;
  const sent = sendCoins(ctx, from.value, to.value, coins.value);
  return sent.ok ? done(createMessage(bank.MsgSendResponseSchema)) : sent;
}

interface Party {
  readonly text: string;
  readonly address: AddressBytes;
  readonly coins: readonly Coin[];
}

function partyOf({ address: text, coins: raw }: bank.Input | bank.Output, which: string): Outcome<Party> {
  const address = party(text, which);
  if (!address.ok) return address;
  const coins = positiveCoins(raw);
  return coins.ok ? done({ text, address: address.value, coins: coins.value }) : coins;
}

function multiSend(
  ctx: Context,
  { inputs, outputs }: bank.MsgMultiSend,
  { blocked }: BankMessageOptions,
): Outcome<bank.MsgMultiSendResponse> {
  const [first] = inputs;
  if (first === undefined) return fail(BANK.noInputs);
  if (inputs.length > 1) return fail(BANK.multipleSenders);
  if (outputs.length === 0) return fail(BANK.noOutputs);
  const input = partyOf(first, "input");
  if (!input.ok) return input;
  const receivers: Party[] = [];
  for (const output of outputs) {
    const receiver = partyOf(output, "output");
    if (!receiver.ok) return receiver;
    receivers.push(receiver.value);
  }
  const { text: sender, address, coins } = input.value;
  const sum = addCoins(receivers.map((receiver) => receiver.coins));
  if (coinsText(sum) !== coinsText(coins)) return fail(BANK.sumsDiffer);
  const enabled = checkSendEnabled(ctx, coins);
  if (!enabled.ok) return enabled;
  for (const receiver of receivers) {
    const allowed = checkReceiver(blocked, receiver.address);
    if (!allowed.ok) return allowed;
  }
  ctx.events.push(chainEvent("message", { sender }));
  const spent = spendCoins(ctx, address, coins);
  if (!spent.ok) return spent;
  for (const receiver of receivers) {
    const received = receiveCoins(ctx, receiver.address, receiver.coins);
    if (!received.ok) return received;
    const amount = coinsText(receiver.coins);
    ctx.events.push(chainEvent("transfer", { recipient: receiver.text, sender, amount }));
    ensureAccount(ctx, receiver.address);
  }
  return done(createMessage(bank.MsgMultiSendResponseSchema));
}

/** A fault unless the message comes from the chain's authority. Codespace gov, as in the SDK. */
export function checkAuthority(expected: string, got: string): Outcome<undefined> {
  const kind = { codespace: "gov", code: 8, text: "expected gov account as only signer for proposal message" };
  return expected === got ? done(undefined) : fail(kind, `invalid authority; expected ${expected}, got ${got}`);
}

function sendEnabledFault({ sendEnabled: list, useDefaultFor }: bank.MsgSetSendEnabled): string | undefined {
  const seen = new Set<string>();
  for (const { denom } of list) {
    if (seen.has(denom)) return `duplicate denom entries found for ${goQuoted(denom)}`;
    seen.add(denom);
    if (!isDenom(denom)) return `invalid SendEnabled denom ${goQuoted(denom)}: invalid denom: ${denom}`;
  }
  const wrong = useDefaultFor.find((denom) => !isDenom(denom));
  return wrong === undefined ? undefined : `invalid UseDefaultFor denom ${goQuoted(wrong)}: invalid denom: ${wrong}`;
}

/** Handlers of the bank's messages, by type URL. */
export function bankMessages(opts: BankMessageOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(bank.MsgSendSchema)]: messageHandler(bank.MsgSendSchema, bank.MsgSendResponseSchema, {
      signers: (message) => [message.fromAddress],
      spending: (message) => [{ address: message.fromAddress, upokt: upoktIn(message.amount) }],
      run: (ctx, message) => send(ctx, message, opts),
    }),
    [typeUrlOf(bank.MsgMultiSendSchema)]: messageHandler(bank.MsgMultiSendSchema, bank.MsgMultiSendResponseSchema, {
      signers: (message) => message.inputs.map((input) => input.address),
      spending: (message) => message.inputs.map(({ address, coins }) => ({ address, upokt: upoktIn(coins) })),
      run: (ctx, message) => multiSend(ctx, message, opts),
    }),
    [typeUrlOf(bank.MsgUpdateParamsSchema)]: messageHandler(
      bank.MsgUpdateParamsSchema,
      bank.MsgUpdateParamsResponseSchema,
      {
        signers: (message) => [message.authority],
        run(ctx, { authority, params }) {
          const allowed = checkAuthority(opts.authority, authority);
          if (!allowed.ok) return allowed;
          const { defaultSendEnabled } = params ?? createMessage(bank.ParamsSchema);
          bankParams.set(ctx, undefined, createMessage(bank.ParamsSchema, { defaultSendEnabled }));
          return done(createMessage(bank.MsgUpdateParamsResponseSchema));
        },
      },
    ),
    [typeUrlOf(bank.MsgSetSendEnabledSchema)]: messageHandler(
      bank.MsgSetSendEnabledSchema,
      bank.MsgSetSendEnabledResponseSchema,
      {
        signers: (message) => [message.authority],
        run(ctx, message) {
          const allowed = checkAuthority(opts.authority, message.authority);
          if (!allowed.ok) return allowed;
          const fault = sendEnabledFault(message);
          if (fault !== undefined) return fail(SDK.invalidRequest, fault);
          for (const { denom, enabled } of message.sendEnabled) sendEnabled.set(ctx, denom, enabled);
          for (const denom of message.useDefaultFor) sendEnabled.remove(ctx, denom);
          return done(createMessage(bank.MsgSetSendEnabledResponseSchema));
        },
      },
    ),
  };
}
