import type { Address, NetworkId, SettlementId } from "@turnpike/base";
import type { PlainFailure, WalletAdmission, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";

/** Time for which subjects without a settlement are remembered; longer than the longest pause. */
const RETENTION_MS = 7 * 86_400_000;

/** Gas of settlements by payer and by the code that they run, and the bounds of those in flight. */
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

  admitPlain(
    network: NetworkId,
    payer: Address,
    ids: readonly SettlementId[],
  ): Promise<ReadonlyMap<SettlementId, WalletAdmission>> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "admitPlain", async () => {
      const values = [network, payer.toLowerCase(), ids];
      const rows = await database.run<{ payment: SettlementId; admission: WalletAdmission }>(
        statements.admitPlain,
        values,
      );
      return new Map(rows.map(({ payment, admission }) => [payment, admission]));
    });
  }

  failPlain({ id, key }: Pick<PaymentRecord, "id" | "key">, { transaction, gas, isLost }: PlainFailure): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "failPlain", async () => {
      const values = [key.network, key.from.toLowerCase(), id, transaction, gas.toString(), isLost];
      await database.run(statements.failPlain, values);
    });
  }

  async failingPayers(network: NetworkId, payers: readonly Address[]): Promise<ReadonlySet<string>> {
    const { database, statements } = this.#parts;
    const subjects = payers.map((payer) => payerOf({ payer }));
    const rows = await database.run<{ payer: string }>(statements.failingPayers, [network, subjects]);
    return new Set(rows.map(({ payer }) => payer));
  }

  async walletPauseSeconds(network: NetworkId, wallet: WalletSubjects): Promise<number> {
    const { database, statements } = this.#parts;
    const values = [network, payerOf(wallet), wallet.classes];
    const rows = await database.run<{ seconds: number }>(statements.walletPause, values);
    return onlyRow(rows, "walletPause").seconds;
  }
}

function payerOf({ payer }: Pick<WalletSubjects, "payer">): string {
  return `payer:${payer.toLowerCase()}`;
}
