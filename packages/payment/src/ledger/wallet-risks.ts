import type { Address, NetworkId, SettlementId } from "@turnpike/base";
import type { PlainFailure, WalletAdmission, WalletBound, WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
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

/** Gas of settlements by payer and by the code that they run, and the bounds of those in flight. */
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
