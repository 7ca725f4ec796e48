import { withClient } from "./database/connect.ts";

export interface RevokeOptions {
  /** Of the database's owner. */
  readonly url: string;
  /** `jti` of the token. */
  readonly tokenId: string;
  /** Why, for readers of the list. */
  readonly reason: string | undefined;
  /** Its `exp`, in milliseconds since the epoch: the id is deleted a day later. Undefined: after 400 days. */
  readonly expiresAtMs?: number | undefined;
}

/** Takes a token back: it is refused from then on, at the latest two seconds later. Gives false when it was already. */
export async function revokeToken({ url, tokenId, reason, expiresAtMs }: RevokeOptions): Promise<boolean> {
  return withClient(url, "db revoke", async (client) => {
    const made = await client.query(
      `insert into portal_private.revoked_tokens (token_id, reason, expires_at)
       values ($1, $2, coalesce(to_timestamp($3::float8 / 1000), now() + interval '400 days')) on conflict do nothing`,
      [tokenId, reason ?? null, expiresAtMs ?? null],
    );
    return made.rowCount === 1;
  });
}
