import { createHash, timingSafeEqual } from "node:crypto";

const BEARER = /^Bearer +([!-~]{1,1024})$/i;

/** A check whether an Authorization header has the token. It takes as long whatever the header says. */
export function createTokenCheck(token: () => string): (header: string | undefined) => boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return (header) => {
    const given = BEARER.exec(header ?? "")?.[1];
    // Digests have one length, so the time says nothing of the token's.
    const isEqual = timingSafeEqual(digest(given ?? ""), digest(token()));
    return given !== undefined && isEqual;
  };
}
