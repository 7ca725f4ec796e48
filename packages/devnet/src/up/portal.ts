import { randomBytes } from "node:crypto";
import { AppError, type Clock } from "@turnpike/base";
import { mintToken } from "@turnpike/portal-db";
import { readOrMakeSecrets } from "../secrets-file.ts";
import type { UpFile } from "../up-file.ts";

/** Secrets of one local management database. */
export interface PortalSecrets {
  /** Of tokens, HS256. */
  readonly jwtSecret: string;
  readonly authenticatorPassword: string;
  readonly gatewayPassword: string;
}

/** What the configuration of the management data is made of. */
export interface PortalFacts {
  readonly ownerUrl: string;
  readonly secrets: PortalSecrets;
}

/** Longer than one runs `turnpike up`; each start makes new ones. */
const TOKEN_SECONDS = 7 * 86_400;
const AUDIENCE = "postgrest";

function secretOf(value: unknown, file: string): string {
  if (typeof value === "string" && /^[0-9a-f]{64}$/.test(value)) return value;
  throw new AppError("DATA_FOLDER", { message: `${file} is damaged. Start over with \`npm start -- --fresh\`.` });
}

/** Reads the secrets of the state folder, or makes them. The file has mode 600. */
export async function localPortalSecrets(file: string): Promise<PortalSecrets> {
  const made = (): string => randomBytes(32).toString("hex");
  const found = await readOrMakeSecrets(file, () => ({
    jwtSecret: made(),
    authenticatorPassword: made(),
    gatewayPassword: made(),
  }));
  return {
    jwtSecret: secretOf(found.jwtSecret, file),
    authenticatorPassword: secretOf(found.authenticatorPassword, file),
    gatewayPassword: secretOf(found.gatewayPassword, file),
  };
}

function asRole(ownerUrl: string, role: string, password: string): string {
  const url = new URL(ownerUrl);
  url.username = role;
  url.password = password;
  return url.href;
}

/** The section `portalDb`. */
export function portalConfig({ ownerUrl, secrets }: PortalFacts, port: number): Readonly<Record<string, unknown>> {
  return {
    ownerUrl,
    url: asRole(ownerUrl, "portal_authenticator", secrets.authenticatorPassword),
    gatewayUrl: asRole(ownerUrl, "portal_gateway", secrets.gatewayPassword),
    host: "127.0.0.1",
    port,
    jwt: { secret: secrets.jwtSecret, audience: AUDIENCE, maxLifetimeSeconds: TOKEN_SECONDS },
  };
}

/** Tokens for the user who tries the API. */
export async function portalTokens(
  secrets: PortalSecrets,
  modules: { readonly clock: Clock },
): Promise<UpFile["dbTokens"]> {
  const mint = async (role: "admin" | "reader"): Promise<string> => {
    const key = { kid: undefined, algorithm: "HS256" as const, material: secrets.jwtSecret };
    const options = { role, accountId: undefined, lifetimeSeconds: TOKEN_SECONDS, audience: AUDIENCE, key };
    return (await mintToken(options, modules)).token;
  };
  return { admin: await mint("admin"), reader: await mint("reader") };
}
