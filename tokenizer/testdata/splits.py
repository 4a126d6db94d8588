#!/usr/bin/env python3
"""Writes splits.json: how the published pre-tokenizer expressions cut texts.

    pip install regex && python3 splits.py > splits.json

The expressions are those of the models' tokenizer.json, run by the `regex`
package. A pre-tokenizer is a list of expressions; each cuts the pieces of the
one before into its matches and the gaps between them. Contractions are spelt
with ASCII classes instead of (?i:...), which would also match U+017F.
A case holds the text and the lengths of its pieces in UTF-8 bytes.
"""
import json
import random

import regex

CONTRACTION = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def words(letters, digits):
    return (
        rf"(?:{CONTRACTION})|[^\r\n\p{{L}}\p{{N}}]?[{letters}]+|\p{{N}}{digits}"
        rf"| ?[^\s{letters}\p{{N}}]+[\r\n]*" + TAIL
    )


def cased(suffix, digits):
    return (
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{suffix}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{suffix}"
        rf"|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + TAIL
    )


def ranges(*pairs):
    return "".join(chr(a) if a == b else f"{chr(a)}-{chr(b)}" for a, b in pairs)


DEEPSEEK_LETTERS = ranges(
    (0x41, 0x5A), (0x61, 0x7A), (0xB5, 0xB5), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1BA), (0x1BC, 0x1BF),
    (0x1C4, 0x293), (0x295, 0x2AF), (0x370, 0x373), (0x376, 0x377), (0x37B, 0x37D), (0x37F, 0x37F), (0x386, 0x386),
    (0x388, 0x38A), (0x38C, 0x38C), (0x38E, 0x3A1), (0x3A3, 0x3F5), (0x3F7, 0x481), (0x48A, 0x52F), (0x531, 0x556),
    (0x10A0, 0x10C5), (0x13A0, 0x13F5), (0x13F8, 0x13FD), (0x1C90, 0x1CBA), (0x1CBD, 0x1CBF), (0x1D00, 0x1D2B),
    (0x1D6B, 0x1D77), (0x1D79, 0x1D9A), (0x1E00, 0x1F15), (0x1F18, 0x1F1D), (0x1F20, 0x1F45), (0x1F48, 0x1F4D),
    (0x1F50, 0x1F57), (0x1F59, 0x1F59), (0x1F5B, 0x1F5B), (0x1F5D, 0x1F5D), (0x1F5F, 0x1F7D), (0x1F80, 0x1FB4),
    (0x1FB6, 0x1FBC), (0x1FBE, 0x1FBE), (0x1FC2, 0x1FC4), (0x1FC6, 0x1FCC), (0x1FD0, 0x1FD3), (0x1FD6, 0x1FDB),
    (0x1FE0, 0x1FEC), (0x1FF2, 0x1FF4), (0x1FF6, 0x1FFC), (0x2102, 0x2102), (0x2107, 0x2107), (0x210A, 0x2113),
    (0x2115, 0x2115), (0x2119, 0x211D), (0x2124, 0x2124), (0x2126, 0x2126), (0x2128, 0x2128), (0x212A, 0x212D),
    (0x212F, 0x2134), (0x2139, 0x2139), (0x213C, 0x213F), (0x2145, 0x2149), (0x214E, 0x214E), (0x2183, 0x2184),
    (0x2C00, 0x2C7B), (0x2C7E, 0x2CE4), (0x2CEB, 0x2CEE), (0x2CF2, 0x2CF3), (0xA640, 0xA66D), (0xA680, 0xA69B),
    (0xA722, 0xA76F), (0xA771, 0xA787), (0xA78B, 0xA78E), (0xAB70, 0xABBF), (0xFB00, 0xFB06), (0xFB13, 0xFB17),
    (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x10400, 0x1044F), (0x104B0, 0x104D3), (0x104D8, 0x104FB),
    (0x10C80, 0x10CB2), (0x10CC0, 0x10CF2), (0x118A0, 0x118DF), (0x1E900, 0x1E943),
)
DEEPSEEK_SIGNS = ranges(
    (0x21, 0x2F), (0x3A, 0x7E), (0xFF01, 0xFF0F), (0xFF1A, 0xFF5E), (0x2018, 0x201F), (0x3000, 0x3002)
).replace("[", r"\[").replace("]", r"\]")
EAST_ASIAN = "[" + ranges((0x4E00, 0x9FA5), (0x800, 0x4E00), (0xAC00, 0xD7FF)) + "]+"
ASCII_SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"

PRE = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [words(r"\p{L}", "{1,3}")],
    "qwen2": [words(r"\p{L}", "")],
    "seed-coder": [words(r"\p{L}", "").replace(r"]+[\r\n]*", r"]+")],
    "qwen35": [words(r"\p{L}\p{M}", "")],
    "gpt-4o": [cased(f"(?:{CONTRACTION})?", "{1,3}")],
    "tekken": [cased("", "")],
    "smollm": [r"\p{N}", GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "refact": [r"\p{N}", GPT2],
    "mpt": [GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "deepseek-llm": [
        r"[\r\n]", rf"\s?[{DEEPSEEK_LETTERS}]+", rf"\s?[{DEEPSEEK_SIGNS}]+", r"\s+\Z", EAST_ASIAN, r"\p{N}",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[" + ranges((0x4E00, 0x9FA5), (0x3040, 0x309F), (0x30A0, 0x30FF)) + "]+",
        rf"{ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*" + TAIL,
    ],
}

SNIPPETS = [
    "The quick brown fox", " jumps", " over", "camelCaseName", "HTTPServer", "XMLParser2", " SHOUTING", "iPhone", "McDonald's",
    "don't", "DON'T", "we'Ve", "they'll", "I'M", "it's", "'s", "'S", "'tis", "l'été", "'", "''", "'re're", "rock'n'roll",
    "1", "12", "123", "1234", "12345678", "3.14159", "1,000,000", "0x1F", "1e-9", "²", "½", "①", "٣٤", "१२३", "Ⅷ",
    " ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r\n\r\n", " \n ", "\n  ", "  \n", " \t \n\n ", "\u00a0", "\u00a0\u00a0",
    "\u2028", "\u3000", "\u2003\u2003", "\u0085", "\x0b", "\x0c", "\x1c", "\x00", "\x07\x07", "\x7f",
    "!", "?!", "...", "---", "===", "!!!\n", "//\n", "/* */", "();\r\n", "`code`", "$100", "50%", "a+b=c", "^~|<>", "#!/bin/sh", "_x_", "@user",
    "func main() {\n\tfmt.Println(\"hi\")\n}\n", "for (int i=0;i<10;++i) a[i]+=b[i]*2;", "https://example.org/a?b=c&d=%20e#f/",
    "naïve café", "Straße", "ÀÉÎ", "Ǆǅǆ", "aǅb", "ǅA", "ʰʷ", "ªº", "ſ's", "ﬁn", "e\u0301a\u0308", "\u0301", "\u0301\u0301A", "A\u0301B", " \u0301x",
    "Привет, мир!", "ПРИВЕТ", "Ελληνικά", "ὈΔΥΣΣΕΎΣ", "Հայերեն", "ქართული", "Ꭰꭰ", "עברית", "العربية", "हिन्दी", "ภาษาไทย", "မြန်မာ",
    "中文字符测试", "中A中AB", "A中", "日本語のテキスト", "カタカナ", "한국어 문장", "，。！？", "“引号”", "Ｆｕｌｌ１２３", "㍿", "𠀀𠀁", "〜", "ー",
    "🦙🚀", "👩\u200d👩\u200d👧", "❤\ufe0f", "☃", "→", "€5", "∑x", "\ufeff", "\u200b", "\u200d", "\ue000", "\U0001d49c", "𐐀𐐨",
]


def split(text, expressions):
    pieces = [text]
    for expression in expressions:
        compiled = regex.compile(expression, regex.V0)
        cut = []
        for piece in pieces:
            at = 0
            for match in compiled.finditer(piece):
                cut += [piece[at : match.start()], match.group()]
                at = match.end()
            cut.append(piece[at:])
        pieces = [p for p in cut if p]
    return pieces


def texts():
    random.seed(20240607)
    yield from SNIPPETS
    for first in SNIPPETS:
        yield first + random.choice(SNIPPETS) + first
    for _ in range(150):
        yield "".join(random.choices(SNIPPETS, k=random.randint(3, 14)))


def main():
    corpus = list(dict.fromkeys(texts()))
    out = {"texts": corpus, "pieces": {}}
    for name, expressions in PRE.items():
        out["pieces"][name] = [[len(p.encode()) for p in split(t, expressions)] for t in corpus]
    lines = ['{"texts": [']
    lines.append(",\n".join(json.dumps(t) for t in corpus))
    lines.append('],\n"pieces": {')
    lines.append(",\n".join(f'"{n}": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]"
                            for n, cases in out["pieces"].items()))
    lines.append("}}")
    print("\n".join(lines))


main()
