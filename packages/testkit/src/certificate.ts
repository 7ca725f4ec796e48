import { generateKeyPairSync, sign } from "node:crypto";

/** A certificate for one name that signs itself, and its key, as PEM. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

/** One DER value. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...size), content]);
}

const [INTEGER, BITS, OCTETS, OID, UTF8, UTC_TIME, SEQUENCE, SET] = [0x02, 0x03, 0x04, 0x06, 0x0c, 0x17, 0x30, 0x31];
const ECDSA_SHA256 = der(SEQUENCE, der(OID, Buffer.from("2a8648ce3d040302", "hex")));

/** Makes a {@link TestCertificate} for a host name that is good until 2049. */
export function makeCertificate(name: string): TestCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const commonName = der(SEQUENCE, der(OID, Buffer.from("550403", "hex")), der(UTF8, Buffer.from(name)));
  const subject = der(SEQUENCE, der(SET, commonName));
  const times = der(SEQUENCE, der(UTC_TIME, Buffer.from("200101000000Z")), der(UTC_TIME, Buffer.from("491231235959Z")));
  const altName = der(SEQUENCE, der(0x82, Buffer.from(name)));
  const extension = der(SEQUENCE, der(OID, Buffer.from("551d11", "hex")), der(OCTETS, altName));
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, Buffer.of(2))),
    der(INTEGER, Buffer.of(1)),
    ECDSA_SHA256,
    subject,
    times,
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, der(SEQUENCE, extension)),
  );
  const signature = sign("sha256", body, privateKey);
  const bytes = der(SEQUENCE, body, ECDSA_SHA256, der(BITS, Buffer.of(0), signature));
  const lines = bytes.toString("base64").replaceAll(/.{64}/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}
