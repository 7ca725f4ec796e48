import { isRecord } from "@turnpike/base";
import { devRpc, USDC_ADDRESS } from "@turnpike/localnet";
import { TOPIC_AUTHORIZATION_USED } from "@turnpike/payment";

/** One transaction of a relayer key, as it was mined. */
export interface Settlement {
  readonly gasUsed: bigint;
  /** Payments in it, by whose they are. */
  readonly honest: number;
  readonly attackers: number;
  /** Payments that it settled. */
  readonly settled: number;
}

/** What a run left on the chain. */
export interface ChainRecord {
  /** How often each authorization was used, by `payer nonce` in lower case. */
  readonly uses: ReadonlyMap<string, number>;
  readonly settlements: readonly Settlement[];
}

/** Name of an authorization in {@link ChainRecord}. */
export function useName(payer: string, nonce: string): string {
  return `${payer} ${nonce}`.toLowerCase();
}

const BLOCKS_AT_ONCE = 8;

/** Reads every block of the chain. */
export async function readChainRecord(
  rpcUrl: string,
  accounts: {
    readonly relayers: ReadonlySet<string>;
    readonly honest: ReadonlySet<string>;
    readonly attackers: ReadonlySet<string>;
  },
): Promise<ChainRecord> {
  const uses = new Map<string, number>();
  const settlements: Settlement[] = [];

  const readBlock = async (height: number): Promise<void> => {
    const number = `0x${height.toString(16)}`;
    const [block, receipts] = await Promise.all([
      devRpc(rpcUrl, "eth_getBlockByNumber", [number, true]),
      devRpc(rpcUrl, "eth_getBlockReceipts", [number]),
    ]);
    if (!isRecord(block) || !Array.isArray(block.transactions) || !Array.isArray(receipts)) {
      throw new TypeError(`block ${height}`);
    }
    const gasOf = new Map<string, bigint>();
    const settledBy = new Map<string, number>();
    for (const receipt of receipts as readonly Receipt[]) {
      gasOf.set(receipt.transactionHash, BigInt(receipt.gasUsed));
      for (const { address, topics } of receipt.logs) {
        if (address.toLowerCase() !== USDC_ADDRESS.toLowerCase() || topics[0] !== TOPIC_AUTHORIZATION_USED) continue;
        const name = useName(`0x${topics[1]?.slice(26)}`, String(topics[2]));
        uses.set(name, (uses.get(name) ?? 0) + 1);
        settledBy.set(receipt.transactionHash, (settledBy.get(receipt.transactionHash) ?? 0) + 1);
      }
    }
    for (const { from, hash, input } of block.transactions as readonly Transaction[]) {
      if (!accounts.relayers.has(from.toLowerCase())) continue;
      const payers = addressesIn(input);
      const among = (some: ReadonlySet<string>): number => payers.filter((payer) => some.has(payer)).length;
      settlements.push({
        gasUsed: gasOf.get(hash) ?? 0n,
        honest: among(accounts.honest),
        attackers: among(accounts.attackers),
        settled: settledBy.get(hash) ?? 0,
      });
    }
  };

  const head = Number(await devRpc(rpcUrl, "eth_blockNumber"));
  for (let from = 0; from <= head; from += BLOCKS_AT_ONCE) {
    const heights = Array.from({ length: Math.min(BLOCKS_AT_ONCE, head - from + 1) }, (_, at) => from + at);
    await Promise.all(heights.map(readBlock));
  }
  return { uses, settlements };
}

interface Receipt {
  readonly transactionHash: string;
  readonly gasUsed: string;
  readonly logs: readonly { readonly address: string; readonly topics: readonly string[] }[];
}

interface Transaction {
  readonly from: string;
  readonly hash: string;
  readonly input: string;
}

/** All words of a call's data that may be an address, wherever they begin: calls within calls are shifted. */
function addressesIn(input: string): string[] {
  return [...input.matchAll(/(?=0{24}([0-9a-f]{40}))/g)].map(([, address]) => `0x${address}`);
}
