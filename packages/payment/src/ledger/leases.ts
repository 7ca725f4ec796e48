import { type Address, AppError, type NetworkId } from "@turnpike/base";
import type { RelayerLease } from "../ledger-types.ts";
import type { SqlValue } from "./database.ts";
import { type Holder, leaseName } from "./holder.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

interface LeaseRow {
  readonly outcome: "leased" | "held" | "fenced";
  readonly epoch: string;
  readonly next_nonce: string;
}

type Leased = Pick<RelayerLease, "network" | "relayer" | "epoch">;

/** The first values of a statement that writes by a lease. */
export function leaseValues(holder: Pick<Holder, "current">, { network, relayer, epoch }: Leased): SqlValue[] {
  return [holder.current(), network, relayer.toLowerCase(), epoch.toString()];
}

/** Leases of relayer keys by this process. */
export class Leases {
  readonly #parts: LedgerParts;
  readonly #leases = new Map<string, Leased>();

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  leaseRelayer(network: NetworkId, relayer: Address, chainNonce: number): Promise<RelayerLease | undefined> {
    const { holder, faults } = this.#parts;
    return committing(faults, "leaseRelayer", async () => {
      const name = holder.current();
      let row = await this.#leaseAs(name, network, relayer, chainNonce);
      if (row.outcome === "fenced") {
        row = await this.#leaseAs(await holder.replace(name), network, relayer, chainNonce);
      }
      if (row.outcome === "fenced") throw new AppError("LEDGER_FENCED", { detail: { method: "leaseRelayer" } });
      if (row.outcome === "held") return undefined;
      const lease = { network, relayer, epoch: BigInt(row.epoch), nextNonce: Number(row.next_nonce) };
      this.#leases.set(leaseName(network, relayer), lease);
      return lease;
    });
  }

  returnRelayer(lease: RelayerLease): Promise<void> {
    const { database, statements, holder, faults } = this.#parts;
    return committing(faults, "returnRelayer", async () => {
      this.#leases.delete(leaseName(lease.network, lease.relayer));
      await database.run(statements.returnRelayer, leaseValues(holder, lease));
    });
  }

  async livingHolders(): Promise<number> {
    const { database, statements } = this.#parts;
    const rows = await database.run<{ living: number }>(statements.livingHolders, []);
    return onlyRow(rows, "livingHolders").living;
  }

  renewLeases(): Promise<readonly { readonly network: NetworkId; readonly relayer: Address }[]> {
    const { holder, faults } = this.#parts;
    return committing(faults, "renewLeases", async () => {
      const name = holder.current();
      // A renewal says nothing of what is leased while it is under way.
      const before = [...this.#leases];
      const granted = await holder.renew();
      if (granted === undefined) await holder.replace(name);
      const lost: { network: NetworkId; relayer: Address }[] = [];
      for (const [key, lease] of before) {
        const { network, relayer, epoch } = lease;
        if (granted?.get(key) === epoch || this.#leases.get(key) !== lease) continue;
        this.#leases.delete(key);
        lost.push({ network, relayer });
      }
      return lost;
    });
  }

  async #leaseAs(name: string, network: NetworkId, relayer: Address, chainNonce: number): Promise<LeaseRow> {
    const { database, statements } = this.#parts;
    const values = [name, network, relayer.toLowerCase(), chainNonce];
    return onlyRow(await database.run<LeaseRow>(statements.leaseRelayer, values), "leaseRelayer");
  }
}
