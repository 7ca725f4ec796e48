import {
  AppError,
  type Clock,
  FaultLogThrottle,
  isAppError,
  type Log,
  type NetworkId,
  sameAddress,
} from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import type { Ledger, RelayerLease } from "../ledger-types.ts";
import type { SettlementChain } from "./chain.ts";
import type { EngineNetwork } from "./options.ts";
import type { RelayerAccount } from "./relayer-account.ts";

/** A configured relayer key. */
export interface RelayerKey {
  readonly privateKey: Uint8Array;
  readonly relayer: `0x${string}`;
}

/** Modules of a {@link Keyring}, which owns none of them. */
export interface KeyringModules {
  readonly ledger: Ledger;
  readonly chain: SettlementChain;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Makes the account of a key that was leased. */
  readonly open: (lease: RelayerLease, key: RelayerKey) => RelayerAccount;
  /** True when no batch is being made for this account. */
  readonly isIdle: (account: RelayerAccount) => boolean;
}

const BALANCE_TIMEOUT_MS = 5_000;

/** The relayer keys of one network that this process has leased. */
export class Keyring {
  readonly #network: NetworkId;
  readonly #keys: readonly RelayerKey[];
  readonly #modules: KeyringModules;
  readonly #accounts = new Map<string, { readonly account: RelayerAccount; readonly lease: RelayerLease }>();
  /** Leases that are ours in the ledger and that no account uses. */
  readonly #returning: RelayerLease[] = [];
  /** How many losses were reported, by relayer: one may come before the lease has an account that could stop. */
  readonly #losses = new Map<string, number>();
  readonly #faultLog: FaultLogThrottle;
  #isReadingBalances = false;

  constructor({ network, relayerKeys }: Pick<EngineNetwork, "network" | "relayerKeys">, modules: KeyringModules) {
    this.#network = network;
    this.#keys = relayerKeys.map((privateKey) => ({ privateKey, relayer: privateKeyToAddress(privateKey) }));
    this.#modules = modules;
    this.#faultLog = new FaultLogThrottle(modules.clock);
  }

  /** Accounts whose lease this process has. */
  held(): readonly RelayerAccount[] {
    return [...this.#accounts.values()].flatMap(({ account }) => (account.held ? [account] : []));
  }

  /**
   * Leases configured keys that are not held, up to this process's share of them, and returns surplus: at start, and
   * again as other processes come and go. Never rejects.
   */
  async leaseShare(): Promise<void> {
    let failed = false;
    try {
      const share = Math.ceil(this.#keys.length / Math.max(1, await this.#modules.ledger.livingHolders()));
      await this.#returnSurplus(share);
      for (const key of this.#keys) {
        if (this.held().length >= share) break;
        if (this.#accounts.get(key.relayer)?.account.held === true) continue;
        if (this.#returning.some(({ relayer }) => sameAddress(relayer, key.relayer))) continue;
        await this.#lease(key).catch((error: unknown) => {
          failed = true;
          this.#logFault(error, key.relayer);
        });
      }
    } catch (error) {
      failed = true;
      this.#logFault(error);
    }
    if (!failed) this.#faultLog.onRecovery();
  }

  /** A lease is lost: the key stops at once. */
  lost(relayer: string): void {
    const key = relayer.toLowerCase();
    this.#losses.set(key, (this.#losses.get(key) ?? 0) + 1);
    this.#accounts.get(key)?.account.stop();
  }

  /**
   * Something else used the key: the ledger has to know before the next batch. An account that holds no lease any more, or
   * an earlier one, stops: this process was registered anew, and what the account signs would be refused.
   */
  async skipTo(account: RelayerAccount, chainNonce: number): Promise<void> {
    const { relayer } = account;
    if (!account.held) return;
    const lease = await this.#modules.ledger.leaseRelayer(this.#network, relayer, chainNonce);
    if (account.held && lease !== undefined && lease.epoch === this.#accounts.get(relayer)?.lease.epoch) {
      account.skipTo(lease.nextNonce);
      return;
    }
    account.stop();
    if (lease !== undefined) this.#returning.push(lease);
  }

  /** Reads the balances in the background, unless that is done already: the next block is soon. Never rejects. */
  async readBalances(): Promise<void> {
    const { chain, signal } = this.#modules;
    const mine = this.held();
    if (this.#isReadingBalances || mine.length === 0 || signal.aborted) return;
    this.#isReadingBalances = true;
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(BALANCE_TIMEOUT_MS)]);
      const balances = await chain.balances(
        mine.map(({ relayer }) => relayer),
        limit,
      );
      for (const [at, account] of mine.entries()) account.balance = balances[at] ?? account.balance;
    } catch {
      // That the chain does not answer is logged where it is polled.
    } finally {
      this.#isReadingBalances = false;
    }
  }

  async #lease(key: RelayerKey): Promise<void> {
    const { ledger, chain, log, signal } = this.#modules;
    const { relayer } = key;
    const [chainNonce, [balance = 0n]] = await Promise.all([
      chain.pendingNonce(relayer, signal),
      chain.balances([relayer], signal),
    ]);
    const losses = this.#losses.get(relayer);
    const lease = await ledger.leaseRelayer(this.#network, relayer, chainNonce);
    if (lease === undefined) return;
    try {
      const open = await ledger.openBatches(this.#network, relayer);
      // It is not reported again.
      if (this.#losses.get(relayer) !== losses) throw new AppError("LEDGER_FENCED");
      const account = this.#modules.open(lease, key);
      account.balance = balance;
      account.adopt(open);
      this.#accounts.set(relayer, { account, lease });
      log.info({ relayer, nonce: account.nextNonce, open: account.open.size }, "holds a relayer key");
    } catch (error) {
      // Leased and not used, its open batches would be followed by no process.
      this.#returning.push(lease);
      throw error;
    }
  }

  /** Returns keys beyond this process's share, those that have nothing open: other processes wait for them. */
  async #returnSurplus(share: number): Promise<void> {
    const mine = [...this.#accounts.values()].filter(({ account }) => account.held);
    const idle = mine.filter(
      ({ account }) => account.open.size === 0 && account.ready(0n) && this.#modules.isIdle(account),
    );
    // Stopped here, all at once: while one is returned, another could be chosen for a batch.
    for (const { account, lease } of idle.slice(0, Math.max(0, mine.length - share))) {
      account.stop();
      this.#returning.push(lease);
    }
    await this.#returnUnused();
  }

  /** What the ledger does not take back now is tried again. */
  async #returnUnused(): Promise<void> {
    const { ledger, log } = this.#modules;
    for (let lease = this.#returning[0]; lease !== undefined; lease = this.#returning[0]) {
      await ledger.returnRelayer(lease);
      this.#returning.shift();
      log.info({ relayer: lease.relayer }, "gave a relayer key back");
    }
  }

  #logFault(error: unknown, relayer?: string): void {
    if (!this.#faultLog.onFailure()) return;
    const { code, detail } = isAppError(error) ? error : { code: "unknown", detail: {} };
    this.#modules.log.warn(
      { ...(relayer === undefined ? {} : { relayer }), ...detail, code },
      "a relayer key could not be leased yet",
    );
  }
}
