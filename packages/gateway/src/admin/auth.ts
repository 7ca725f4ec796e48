import { createHash, timingSafeEqual } from "node:crypto";

const BEARER = /^Bearer +([!-~]{1,1024})$/i;

/** Tells whether an Authorization header bears the token. It takes as long whatever the header says. */
export function createTokenCheck(token: () => string): (header: string | undefined) => boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return (header) => {
    const given = BEARER.exec(header ?? "")?.[1];
    // Digests have one length, so nothing is told of the token's.
    const isEqual = timingSafeEqual(digest(given ?? ""), digest(token()));
    return given !== undefined && isEqual;
  };
}
