import { AppError } from "@turnpike/base";
import { bank, createMessage } from "@turnpike/proto";
import { addressText, parseAddress } from "../../state/addresses.ts";
import { bytesToText } from "../../state/bytes.ts";
import type { Context } from "../../state/context.ts";
import { type Module, moduleGenesis } from "../../state/module.ts";
import {
  BANK_MODULE,
  balances,
  bankParams,
  denomMetadata,
  getBankParams,
  sendEnabled,
  setBalance,
  setSupply,
  supplies,
} from "./balances.ts";
import {
  addCoins,
  areValidCoins,
  type Coin,
  coinsText,
  isAmount,
  isDenom,
  readCoins,
  writeCoin,
  writeCoins,
} from "./coins.ts";
import { type BankMessageOptions, bankMessages } from "./messages.ts";
import { BANK_QUERIES } from "./queries.ts";

const MOST_SHOWN = 128;

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the bank is not valid: ${why}.` });

function init(ctx: Context, state: bank.GenesisState): undefined {
  const { defaultSendEnabled } = state.params ?? createMessage(bank.ParamsSchema, { defaultSendEnabled: true });
  bankParams.set(ctx, undefined, createMessage(bank.ParamsSchema, { defaultSendEnabled }));
  for (const { denom, enabled } of state.sendEnabled) {
    if (!isDenom(denom)) throw invalid(`the denom ${denom.slice(0, MOST_SHOWN)}`);
    sendEnabled.set(ctx, denom, enabled);
  }
  const lists: Coin[][] = [];
  const seen = new Set<string>();
  for (const { address: text, coins: raw } of state.balances) {
    const address = parseAddress(text);
    const coins = readCoins(raw);
    if (!address.ok || coins === undefined || !areValidCoins(coins)) throw invalid(`the balance of ${text}`);
    const key = bytesToText(address.value);
    if (seen.has(key)) throw invalid(`two balances of ${text}`);
    seen.add(key);
    lists.push(coins);
    for (const coin of coins) setBalance(ctx, address.value, coin);
  }
  const total = addCoins(lists);
  const stated = readCoins(state.supply);
  if (stated === undefined || (stated.length > 0 && coinsText(stated) !== coinsText(total))) {
    throw invalid("the supply is not the sum of the balances");
  }
  for (const coin of total) {
    if (!isAmount(coin.amount)) throw invalid(`the supply of ${coin.denom} is over 256 bits`);
    setSupply(ctx, coin);
  }
  for (const metadata of state.denomMetadata) {
    if (!isDenom(metadata.base)) throw invalid(`the denom ${metadata.base.slice(0, MOST_SHOWN)}`);
    denomMetadata.set(ctx, metadata.base, metadata);
  }
}

function exportState(ctx: Context): bank.GenesisState {
  const byAddress = new Map<string, Coin[]>();
  for (const [[address, denom], amount] of balances.entries(ctx)) {
    const text = addressText(address);
    const coins = byAddress.get(text) ?? [];
    coins.push({ denom, amount });
    byAddress.set(text, coins);
  }
  return createMessage(bank.GenesisStateSchema, {
    params: getBankParams(ctx),
    balances: [...byAddress].map(([address, coins]) =>
      createMessage(bank.BalanceSchema, { address, coins: writeCoins(coins) }),
    ),
    supply: [...supplies.entries(ctx)].map(([denom, amount]) => writeCoin({ denom, amount })),
    denomMetadata: [...denomMetadata.entries(ctx)].map(([, metadata]) => metadata),
    sendEnabled: [...sendEnabled.entries(ctx)].map(([denom, enabled]) =>
      createMessage(bank.SendEnabledSchema, { denom, enabled }),
    ),
  });
}

/** The module of balances, transfers and supply. */
export function bankModule(opts: BankMessageOptions): Module {
  return {
    name: BANK_MODULE,
    messages: bankMessages(opts),
    queries: BANK_QUERIES,
    genesis: moduleGenesis(bank.GenesisStateSchema, { init, export: exportState }),
  };
}
