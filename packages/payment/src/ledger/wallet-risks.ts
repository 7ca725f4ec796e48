import type { NetworkId, SettlementId } from "@turnpike/base";
import type { WalletAdmission, WalletBound, WalletSubjects } from "../ledger-types.ts";
import { createGroup } from "./group.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

/** Time for which subjects without a settlement are remembered; longer than the longest pause. */
const RETENTION_MS = 7 * 86_400_000;
/** Maximum number of payments that one statement asks for: it holds the row that all processes count by. */
const MAX_ADMISSIONS = 32;

interface AskedPlace {
  readonly id: SettlementId;
  readonly network: NetworkId;
  readonly payer: string;
  readonly subjects: readonly string[];
}

/** Gas of settlements that run their payers' code, by payer and code, and the bounds of those in flight. */
export class WalletRisks {
  readonly #parts: LedgerParts;
  readonly #admit: (payment: AskedPlace) => Promise<WalletAdmission>;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
    const { database, statements, queueLimit } = parts;
    // One statement at a time: all wait for one row, and each holds a connection meanwhile.
    this.#admit = createGroup({ maxBatch: MAX_ADMISSIONS, maxRunning: 1, maxWaiting: queueLimit }, async (payments) => {
      const values = [JSON.stringify(payments), RETENTION_MS];
      const rows = await database.run<{ admission: WalletAdmission }>(statements.admitWallets, values);
      return rows.map(({ admission }) => admission);
    });
  }

  admitWallet(id: SettlementId, network: NetworkId, wallet: WalletSubjects): Promise<WalletAdmission> {
    return committing(this.#parts.faults, "admitWallet", () =>
      this.#admit({ id, network, payer: payerOf(wallet), subjects: wallet.classes }),
    );
  }

  async walletBound(network: NetworkId, wallet: WalletSubjects): Promise<WalletBound | undefined> {
    const { database, statements } = this.#parts;
    const values = [network, payerOf(wallet), wallet.classes];
    const rows = await database.run<WalletBound>(statements.walletBound, values);
    return rows[0];
  }

  endWallet(
    id: SettlementId,
    network: NetworkId,
    wallet: WalletSubjects,
    { gas, isLost }: { readonly gas: bigint; readonly isLost: boolean },
  ): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "endWallet", async () => {
      const values = [id, network, payerOf(wallet), wallet.classes, isLost, gas.toString()];
      await database.run(statements.endWallet, values);
    });
  }

  async walletPauseSeconds(network: NetworkId, wallet: WalletSubjects): Promise<number> {
    const { database, statements } = this.#parts;
    const values = [network, payerOf(wallet), wallet.classes];
    const rows = await database.run<{ seconds: number }>(statements.walletPause, values);
    return onlyRow(rows, "walletPause").seconds;
  }
}

function payerOf({ payer }: WalletSubjects): string {
  return `payer:${payer.toLowerCase()}`;
}
