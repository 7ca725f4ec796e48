import type { Config } from "./schema.ts";
import { passwordFaults } from "./url-rules.ts";

/** Words of secrets that stand in examples, and a text of one character over and over. */
const SAMPLE = /^(.)\1*$|change[-_]?me|choose[-_]?one|supersecret|your[-_]|password|example|sample|reallyreally/i;

/** Ports of the management data API, when it is configured. */
export function portalPorts({
  portalDb: { url, host, port, metrics },
}: Config): readonly { readonly path: string; readonly host: string; readonly port: number }[] {
  if (url === undefined) return [];
  return [
    { path: "portalDb.port", host, port },
    { path: "portalDb.metrics.port", host: metrics.host, port: metrics.port ?? 0 },
  ];
}

function userFaults(path: string, url: string | undefined, role: string): string[] {
  if (url === undefined) return [];
  try {
    if (decodeURIComponent(new URL(url).username) === role) return [];
  } catch {
    // reported as the fault below
  }
  return [`${path}: expected the role ${role} as its user; the API must not run with the rights of an owner`];
}

/** The management data API: roles, keys, and secrets that everybody knows. */
export function portalFaults({ localnet, portalDb }: Config): string[] {
  const { url, gatewayUrl, jwt } = portalDb;
  const faults = [
    ...userFaults("portalDb.url", url, "portal_authenticator"),
    ...userFaults("portalDb.gatewayUrl", gatewayUrl, "portal_gateway"),
    ...passwordFaults("portalDb.url", url),
    ...passwordFaults("portalDb.gatewayUrl", gatewayUrl),
  ];
  const secrets: (readonly [string, string | undefined])[] = [["portalDb.jwt.secret", jwt.secret]];
  const ids = new Set<string>();
  for (const [at, { kid, algorithm, secret, publicKey }] of jwt.keys.entries()) {
    const path = `portalDb.jwt.keys[${at}]`;
    if (ids.has(kid)) faults.push(`${path}.kid: ${kid} stands twice; give each key its own`);
    ids.add(kid);
    const [needed, other] = algorithm === "HS256" ? ["secret", "publicKey"] : ["publicKey", "secret"];
    const has = { secret: secret !== undefined, publicKey: publicKey !== undefined };
    if (!has[needed as keyof typeof has]) faults.push(`${path}.${needed}: missing; ${algorithm} needs it`);
    if (has[other as keyof typeof has]) faults.push(`${path}.${other}: ${algorithm} has none; remove it`);
    secrets.push([`${path}.secret`, secret]);
  }
  if (localnet) return faults;
  for (const [path, secret] of secrets) {
    if (secret === undefined || !SAMPLE.test(secret)) continue;
    faults.push(`${path}: this is a sample, not a secret; set one of your own, such as of openssl rand -hex 32`);
  }
  return faults;
}
