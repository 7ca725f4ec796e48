import type { NetworkId, SettlementId } from "@turnpike/base";
import type { WalletAdmission, WalletSubjects } from "../ledger-types.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

/** Time for which subjects without a settlement are remembered; longer than the longest pause. */
const RETENTION_MS = 7 * 86_400_000;

/** Gas of settlements that run their payers' code, by payer and code, and the bounds of those in flight. */
export class WalletRisks {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  admitWallet(id: SettlementId, network: NetworkId, wallet: WalletSubjects): Promise<WalletAdmission> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "admitWallet", async () => {
      const values = [id, network, payerOf(wallet), wallet.classes, RETENTION_MS];
      const rows = await database.run<{ admission: WalletAdmission }>(statements.admitWallet, values);
      return onlyRow(rows, "admitWallet").admission;
    });
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
