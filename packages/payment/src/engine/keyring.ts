import { type Clock, FaultLogThrottle, isAppError, type Log, sameAddress } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import type { Ledger, RelayerLease } from "../ledger-types.ts";
import type { SettlementChain } from "./chain.ts";
import type { Lane } from "./lane.ts";
import type { EngineNetwork } from "./options.ts";

/** A configured relayer key. */
export interface RelayerKey {
  readonly privateKey: Uint8Array;
  readonly relayer: `0x${string}`;
}

/** What {@link createKeyring} works with. */
export interface KeyringModules {
  readonly ledger: Ledger;
  readonly chain: SettlementChain;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Makes the lane of a key that was leased. */
  readonly open: (lease: RelayerLease, key: RelayerKey) => Lane;
  /** True when nothing is being made for this lane. */
  readonly isIdle: (lane: Lane) => boolean;
}

/** The relayer keys of one network that this process holds. */
export interface Keyring {
  held(): readonly Lane[];
  /**
   * Takes configured keys that are not held, up to this process's share of them, and gives surplus back: at start, and
   * again as other processes come and go. Never rejects.
   */
  leaseShare(): Promise<void>;
  /** A lease is lost: the key stops at once. */
  lost(relayer: string): void;
  /** Reads the balances in the background, unless that is done already: the next block is soon. Never rejects. */
  readBalances(): Promise<void>;
}

const BALANCE_TIMEOUT_MS = 5_000;

/** Creates an empty keyring. */
export function createKeyring(net: EngineNetwork, modules: KeyringModules): Keyring {
  const { ledger, chain, clock, log, signal } = modules;
  const { network } = net;
  const keys = net.relayerKeys.map((privateKey) => ({ privateKey, relayer: privateKeyToAddress(privateKey) }));
  const lanes = new Map<string, { readonly lane: Lane; readonly lease: RelayerLease }>();
  /** Leases that are ours in the ledger and that no lane uses. */
  const returning: RelayerLease[] = [];
  const faultLog = new FaultLogThrottle(clock);
  let reading = false;

  const held = (): readonly Lane[] => [...lanes.values()].flatMap(({ lane }) => (lane.held ? [lane] : []));

  const lease = async (key: RelayerKey): Promise<void> => {
    const [chainNonce, [balance = 0n]] = await Promise.all([
      chain.pendingNonce(key.relayer, signal),
      chain.balances([key.relayer], signal),
    ]);
    const granted = await ledger.leaseRelayer(network, key.relayer, chainNonce);
    if (granted === undefined) return;
    try {
      const open = await ledger.openBatches(network, key.relayer);
      const lane = modules.open(granted, key);
      lane.balance = balance;
      lane.adopt(open);
      lanes.set(key.relayer, { lane, lease: granted });
      log.info({ relayer: key.relayer, nonce: lane.nextNonce, open: lane.open.size }, "holds a relayer key");
    } catch (error) {
      // Held and not used, its open batches would be nobody's.
      returning.push(granted);
      throw error;
    }
  };

  /** Gives back what is not used any more; what the ledger does not take now is tried again. */
  const returnUnused = async (): Promise<void> => {
    for (let lease = returning[0]; lease !== undefined; lease = returning[0]) {
      await ledger.returnRelayer(lease);
      returning.shift();
      log.info({ relayer: lease.relayer }, "gave a relayer key back");
    }
  };

  /** Gives keys back beyond this process's share, those that have nothing under way: others wait for them. */
  const giveBack = async (share: number): Promise<void> => {
    const mine = [...lanes.values()].filter(({ lane }) => lane.held);
    const idle = mine.filter(({ lane }) => lane.open.size === 0 && lane.ready(0n) && modules.isIdle(lane));
    // Stopped here, all at once: while one is given back, another could be taken for a batch.
    for (const { lane, lease } of idle.slice(0, Math.max(0, mine.length - share))) {
      lane.stop();
      returning.push(lease);
    }
    await returnUnused();
  };

  const complain = (error: unknown, relayer?: string): void => {
    if (!faultLog.onFailure()) return;
    const code = isAppError(error) ? error.code : "unknown";
    log.warn({ ...(relayer === undefined ? {} : { relayer }), code }, "a relayer key could not be leased yet");
  };

  return {
    held,

    async leaseShare() {
      let failed = false;
      try {
        const share = Math.ceil(keys.length / Math.max(1, await ledger.livingHolders()));
        await giveBack(share);
        for (const key of keys) {
          if (held().length >= share) break;
          if (lanes.get(key.relayer)?.lane.held === true) continue;
          if (returning.some(({ relayer }) => sameAddress(relayer, key.relayer))) continue;
          await lease(key).catch((error: unknown) => {
            failed = true;
            complain(error, key.relayer);
          });
        }
      } catch (error) {
        failed = true;
        complain(error);
      }
      if (!failed) faultLog.onRecovery();
    },

    lost(relayer) {
      lanes.get(relayer.toLowerCase())?.lane.stop();
    },

    async readBalances() {
      const mine = held();
      if (reading || mine.length === 0 || signal.aborted) return;
      reading = true;
      try {
        const limit = AbortSignal.any([signal, AbortSignal.timeout(BALANCE_TIMEOUT_MS)]);
        const balances = await chain.balances(
          mine.map(({ relayer }) => relayer),
          limit,
        );
        for (const [at, lane] of mine.entries()) lane.balance = balances[at] ?? lane.balance;
      } catch {
        // The chain's silence is seen, and said, by those who watch it.
      } finally {
        reading = false;
      }
    },
  };
}
