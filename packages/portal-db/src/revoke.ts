import { withClient } from "./database/connect.ts";

/** Options of {@link revokeToken}. */
export interface RevokeOptions {
  /** Of the database's owner. */
  readonly url: string;
  /** `jti` of the token. */
  readonly tokenId: string;
  /** Why, for whoever reads the list. */
  readonly reason: string | undefined;
}

/** Takes a token back: it is refused from then on, at the latest two seconds later. Gives false when it was already. */
export async function revokeToken({ url, tokenId, reason }: RevokeOptions): Promise<boolean> {
  return withClient(url, "db revoke", async (client) => {
    const made = await client.query(
      "insert into portal_private.revoked_tokens (token_id, reason) values ($1, $2) on conflict do nothing",
      [tokenId, reason ?? null],
    );
    return made.rowCount === 1;
  });
}
