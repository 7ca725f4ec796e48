/** Parses CSV (RFC 4180): records of fields. Undefined for text that is none, or that has more than `maxFields`. */
export function parseCsv(text: string, maxFields: number): readonly (readonly string[])[] | undefined {
  const records: string[][] = [];
  let record: string[] = [];
  let fields = 0;
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  const endField = (field: string): boolean => {
    record.push(field);
    return ++fields <= maxFields;
  };
  const endRecord = (): void => {
    records.push(record);
    record = [];
  };
  while (at < text.length) {
    let field = "";
    if (text[at] === '"') {
      at++;
      for (;;) {
        const end = text.indexOf('"', at);
        if (end < 0) return undefined;
        field += text.slice(at, end);
        at = end + 1;
        if (text[at] !== '"') break;
        field += '"';
        at++;
      }
    } else {
      let end = at;
      while (end < text.length && !",\r\n".includes(text[end] ?? "")) end++;
      field = text.slice(at, end);
      if (field.includes('"')) return undefined;
      at = end;
    }
    if (!endField(field)) return undefined;
    if (text[at] === ",") {
      at++;
      if (at === text.length || text[at] === "\n" || text[at] === "\r") {
        if (!endField("")) return undefined;
      } else continue;
    }
    if (text[at] === "\r" && text[at + 1] === "\n") at += 2;
    else if (text[at] === "\n" || text[at] === "\r") at++;
    else if (at < text.length) return undefined;
    endRecord();
  }
  if (record.length > 0) endRecord();
  return records;
}
