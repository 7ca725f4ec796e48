import { type Address, AppError, type NetworkId } from "@turnpike/base";
import pg from "pg";
import { withClient } from "./client.ts";

/** Where payments in one asset go. */
export interface Receiver {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly payTo: Address;
}

/** A receiver as the ledger writes it. */
export function receiverName({ network, asset, payTo }: Receiver): string {
  return `${network} ${asset} ${payTo}`.toLowerCase();
}

/**
 * Holds that no other ledger of this database sells for a receiver of this one: a payment is evidence wherever it is
 * looked for, so one would buy an answer at each of them. Ledgers of other databases cannot be seen.
 * @throws AppError CONFIG_INVALID that names the other one's schema.
 */
export async function assertSoleSeller(
  opts: {
    readonly url: string;
    readonly schema: string;
    readonly connectTimeoutMs: number | undefined;
    /** A database that does not answer must not hold up the renewals that wait for this. */
    readonly queryTimeoutMs: number;
  },
  sells: readonly string[],
): Promise<void> {
  const work = async (
    client: pg.Client,
  ): Promise<{ readonly schema: string; readonly receiver: string } | undefined> => {
    const ledgers = await client.query<{ schema: string }>(
      `select n.nspname as schema from pg_attribute a
        join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        where c.relname = 'holders' and c.relkind = 'r' and a.attname = 'sells' and n.nspname <> $1
          and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')`,
      [opts.schema],
    );
    for (const { schema } of ledgers.rows) {
      const found = await client.query<{ receiver: string }>(
        `select receiver from ${pg.escapeIdentifier(schema)}.holders, unnest(sells) as receiver
          where expires_at > clock_timestamp() and receiver = any ($1::text[]) limit 1`,
        [sells],
      );
      const [row] = found.rows;
      if (row !== undefined) return { schema, receiver: row.receiver };
    }
    return undefined;
  };
  const other = await withClient(opts.url, "createLedger", work, opts.connectTimeoutMs, opts.queryTimeoutMs);
  if (other === undefined) return;
  const [network, , payTo] = other.receiver.split(" ");
  throw new AppError("CONFIG_INVALID", {
    message:
      `payment.networks: another gateway, with the ledger ${other.schema} of this database, sells for ${payTo} on ${network}. ` +
      "One payment would buy at both: give each a payTo of its own, or the same ledger.schema.",
  });
}
