import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import { AppError } from "@turnpike/base";

// PostgreSQL's default; RFC 7677 asks for at least as many.
const ITERATIONS = 4_096;
const VERIFIER = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)$/;

function verifierOf(password: string, salt: Buffer, iterations: number): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const clientKey = createHmac("sha256", salted).update("Client Key").digest();
  const storedKey = createHash("sha256").update(clientKey).digest("base64");
  const serverKey = createHmac("sha256", salted).update("Server Key").digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}

/**
 * What the server keeps of a password (RFC 5803), so that the password itself is in no statement and no log of the
 * server. Throws AppError CONFIG_INVALID unless the password is 8 to 256 printable ASCII characters: others would have
 * to be prepared as RFC 4013 says.
 */
export function scramVerifier(password: string): string {
  if (!/^[\x20-\x7e]{8,256}$/.test(password)) {
    throw new AppError("CONFIG_INVALID", {
      message: "The password of a database role must be 8 to 256 printable ASCII characters.",
    });
  }
  return verifierOf(password, randomBytes(16), ITERATIONS);
}

/** True when the verifier was made of this password. */
export function isVerifierOf(verifier: string, password: string): boolean {
  const [, iterations, salt] = VERIFIER.exec(verifier) ?? [];
  if (iterations === undefined || salt === undefined) return false;
  const made = Buffer.from(verifierOf(password, Buffer.from(salt, "base64"), Number(iterations)));
  const kept = Buffer.from(verifier);
  return made.length === kept.length && timingSafeEqual(made, kept);
}
