import { deflateSync } from "node:zlib";

/** Builds a small PDF for tests: one page of text, with its information dictionary. */
export function buildPdf(
  text: string,
  opts: {
    readonly title?: string;
    readonly date?: string;
    readonly content?: Uint8Array;
    readonly encrypt?: boolean;
  } = {},
): Uint8Array {
  const stream = opts.content ?? deflateSync(Buffer.from(`BT /F1 12 Tf 72 720 Td (${text}) Tj ET`, "latin1"));
  const objects: Buffer[] = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ].map((object) => Buffer.from(object, "latin1"));
  objects.push(
    Buffer.concat([
      Buffer.from(`<< /Length ${stream.length} /Filter /FlateDecode >>\nstream\n`),
      stream,
      Buffer.from("\nendstream"),
    ]),
  );
  objects.push(Buffer.from(`<< /Title (${opts.title ?? ""}) /ModDate (${opts.date ?? ""}) >>`));
  const key = "00".repeat(32);
  objects.push(Buffer.from(`<< /Filter /Standard /V 1 /R 2 /O <${key}> /U <${key}> /P -4 >>`));
  const parts: Buffer[] = [Buffer.from("%PDF-1.4\n")];
  const offsets: number[] = [];
  let at = 9;
  for (const [index, object] of objects.entries()) {
    const part = Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), object, Buffer.from("\nendobj\n")]);
    offsets.push(at);
    at += part.length;
    parts.push(part);
  }
  const table = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  const encrypt = opts.encrypt === true ? `/Encrypt 7 0 R /ID [<${key}> <${key}>]` : "";
  parts.push(
    Buffer.from(
      `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R /Info 6 0 R ${encrypt} >>\nstartxref\n${at}\n%%EOF\n`,
    ),
  );
  return new Uint8Array(Buffer.concat(parts));
}
