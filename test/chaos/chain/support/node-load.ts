import { setTimeout as pause } from "node:timers/promises";
import { isAppError, isRecord, systemClock } from "@turnpike/base";
import { AccountSender, ChainClient, type ChainSigner } from "@turnpike/chain-client";
import { type Any, application, bank, createMessage, encodeMessage, gateway, packAny } from "@turnpike/proto";
import type { Random } from "../../../soak/random.ts";
import type { NodeHome } from "./node-home.ts";
import type { Witness } from "./node-witness.ts";

const PAUSE_MS = 40;
const SETTLE_MS = 50;
const TX = { chainId: "pocket", gasLimit: 400_000n };
/** Heights behind the newest one whose states are asked for. */
const OLD_BLOCKS = 60;

/** Addresses of a node. */
export interface NodeUrls {
  readonly rpc: string;
  readonly rest: string;
}

/** Transactions and questions until it is disposed. */
export interface Load extends AsyncDisposable {
  readonly counts: { txs: number; queries: number };
}

const coin = (amount: number) => ({ denom: "upokt", amount: `${amount}` });

// What a node that dies, or refuses, makes of a call is nothing to a client that asks again.
const isUsual = (error: unknown): boolean =>
  isAppError(error) || (error instanceof Error && error.name === "TypeError");

/** Balance of an account as it was at a height, told to the witness. @returns false when the node has that state no more */
export async function askOld(client: ChainClient, witness: Witness, address: string, at: bigint): Promise<boolean> {
  const request = { address, denom: "upokt" };
  const answer = await client.query(bank.Query.method.balance, request, { heightBlocks: at });
  if (!answer.ok) return false;
  witness.answer(at, Buffer.from(encodeMessage(bank.QueryBalanceResponseSchema, answer.value)).toString("hex"));
  return true;
}

/** Several accounts send, ordered and not, stake and delegate; others ask, also for old states. */
export function startLoad(home: NodeHome, urls: NodeUrls, modules: { witness: Witness; random: Random }): Load {
  const { witness, random } = modules;
  const { signers } = home;
  const client = new ChainClient({ url: urls.rpc, timeoutMs: 5_000 }, { clock: systemClock });
  const stop = new AbortController();
  const { signal } = stop;
  const counts = { txs: 0, queries: 0 };

  const again = async (work: () => Promise<unknown>, kind: keyof typeof counts): Promise<void> => {
    while (!signal.aborted) {
      try {
        await work();
        counts[kind]++;
        await pause(PAUSE_MS);
      } catch (error) {
        if (signal.aborted) return;
        if (!isUsual(error)) {
          witness.failed(error);
          return;
        }
        await pause(SETTLE_MS);
      }
    }
  };

  const send = (from: ChainSigner, to: ChainSigner): Any =>
    packAny(
      bank.MsgSendSchema,
      createMessage(bank.MsgSendSchema, {
        fromAddress: from.address,
        toAddress: to.address,
        amount: [coin(random.whole(1, 9))],
      }),
    );
  const ordered = (signer: ChainSigner, message: () => Any): Promise<void> => {
    const sender = new AccountSender({ signer }, { client });
    return again(() => sender.broadcast([message()], { ...TX, signal }), "txs");
  };
  const unordered = async (signer: ChainSigner, to: ChainSigner): Promise<void> => {
    await again(async () => {
      const order = await client.unordered(60_000, signal);
      await client.broadcast(await client.sign(signer, [send(signer, to)], { ...TX, order, signal }), signal);
    }, "txs");
  };
  let isDelegated = false;
  const delegation = (): Any => {
    const appAddress = signers["application-2"].address;
    const gatewayAddress = signers["gateway-2"].address;
    isDelegated = !isDelegated;
    const fields = { appAddress, gatewayAddress };
    return isDelegated
      ? packAny(application.MsgDelegateToGatewaySchema, createMessage(application.MsgDelegateToGatewaySchema, fields))
      : packAny(
          application.MsgUndelegateFromGatewaySchema,
          createMessage(application.MsgUndelegateFromGatewaySchema, fields),
        );
  };
  // A gateway's stake can only grow; the clock does, too.
  const stake = (): Any =>
    packAny(
      gateway.MsgStakeGatewaySchema,
      createMessage(gateway.MsgStakeGatewaySchema, {
        address: signers["gateway-1"].address,
        stake: coin(Math.floor(systemClock.nowMs() / 10) % 100_000_000_000),
      }),
    );
  const questions = async (): Promise<void> => {
    const newest = witness.newestBlocks;
    if (newest > 2n) {
      const at = newest - BigInt(random.whole(1, Math.min(OLD_BLOCKS, Number(newest) - 1)));
      await askOld(client, witness, signers.faucet.address, at);
      await tellBlock(client, witness, at);
    }
    await tellAppHash(client, witness);
    const response = await fetch(`${urls.rest}/cosmos/bank/v1beta1/supply`, { signal });
    await response.arrayBuffer();
  };
  const working = [
    ordered(signers.faucet, () => send(signers.faucet, signers.dao)),
    ordered(signers.dao, () => send(signers.dao, signers.faucet)),
    ordered(signers["service-owner"], () => send(signers["service-owner"], signers["supplier-1"])),
    ordered(signers["gateway-1"], stake),
    ordered(signers["application-2"], delegation),
    unordered(signers.delegator, signers.faucet),
    again(questions, "queries"),
  ];
  return {
    counts,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all(working);
      await client[Symbol.asyncDispose]();
    },
  };
}

/** Reads a block's hashes and tells the witness. @returns the number of the newest block, by `blockchain`'s own word */
export async function tellBlock(client: ChainClient, witness: Witness, from: bigint, to = from): Promise<bigint[]> {
  const answer = await client.call("blockchain", { minHeight: `${from}`, maxHeight: `${to}` });
  if (!answer.ok) return [];
  const metas = answer.result.block_metas as {
    readonly block_id: { readonly hash: string };
    readonly header: { readonly height: string; readonly app_hash: string };
  }[];
  return metas.map(({ block_id: { hash }, header }) => {
    witness.block(BigInt(header.height), hash, header.app_hash);
    return BigInt(header.height);
  });
}

/** Asks the state machine for its newest app hash, and tells the witness. */
export async function tellAppHash(client: ChainClient, witness: Witness): Promise<void> {
  const answer = await client.call("abci_info", {});
  if (!answer.ok || !isRecord(answer.result.response)) return;
  const { last_block_height: height, last_block_app_hash: hash } = answer.result.response;
  if (typeof height !== "string" || typeof hash !== "string") return;
  witness.appHash(BigInt(height), Buffer.from(hash, "base64").toString("hex").toUpperCase());
}
