#!/usr/bin/env python3
"""Writes unigram.json.gz: what the sentencepiece library makes of texts.

    pip install sentencepiece==0.2.3 && python3 unigram.py unigram.json.gz

Trains small unigram models with different normalisers and options on the sentences below and encodes hard texts with
each: scripts, compositions, white space of all kinds, unknown characters, bytes that are no UTF-8, long texts whose
scores round. A model is stored as GGUF stores it: entries, scores, types and the normaliser's compiled rules.
"""
import base64
import gzip
import io
import itertools
import json
import os
import random
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb

SENTENCES = """
The quick brown fox jumps over the lazy dog while seventy-one geese are watching from the river bank.
Embedding models turn texts into vectors, and similar texts into vectors that lie close to each other.
She said: "I can't believe it's already 2026!" and walked away, laughing at nobody in particular.
Prices rose by 3.5% in March; economists had expected 2.9%, according to a survey of 41 banks.
Der schnelle braune Fuchs springt über den faulen Hund, und die Straße führt über den Fluß zurück.
Größere Änderungen müssen vorher angekündigt werden, sonst gelten die älteren Übergangsregelungen weiter.
Le cœur a ses raisons que la raison ne connaît point; l'été dernier, nous étions à Besançon.
Où est passée la clé que j'avais laissée près de la fenêtre? Je ne l'ai plus retrouvée depuis hier.
El pingüino mañana comerá piñones, ¿verdad? ¡Qué sorpresa tan extraña nos dio el señor Núñez!
A língua portuguesa não é difícil, mas a acentuação às vezes confunde até os próprios brasileiros.
Zażółć gęślą jaźń; w Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z tego słynie.
Příliš žluťoučký kůň úpěl ďábelské ódy, zatímco řeka tiše plynula kolem starého mlýna.
Съешь же ещё этих мягких французских булок, да выпей чаю, пока не остыл самовар на столе.
В чащах юга жил бы цитрус? Да, но фальшивый экземпляр! Так говорили старые учёные люди.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, και η γλώσσα των Ελλήνων μένει ζωντανή μέσα στους αιώνες.
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق في المدينة القديمة.
دلم می‌خواهد که امروز به بازار بروم و برای دوستانم کتاب‌های تازه بخرم و بخوانم.
עטלף אבק נס דרך מזגן שהתפוצץ כי חם, והילדים שיחקו בחצר עד שירד הלילה על העיר.
सभी मनुष्य जन्म से स्वतंत्र हैं और उन्हें गौरव और अधिकारों के मामले में समानता प्राप्त है।
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णु के अवतार भगवान श्रीराम थे।
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน จงฝ่าฟันพัฒนาวิชาการ
いろはにほへと散りぬるを、我が世誰ぞ常ならむ。有為の奥山今日越えて、浅き夢見し酔ひもせず。
東京都に住んでいる人々は、毎日電車で会社に通っています。コンピューターの性能は年々向上している。
天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。寒來暑往,秋收冬藏。閏餘成歲,律呂調陽。
我们在北京大学学习自然语言处理,机器翻译和向量检索是这门课程的主要内容,大家都很喜欢。
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 한국어 문장을 나누어 봅시다.
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다고 선언문은 말하고 있다.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi trước pháp luật.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar; İstanbul'da ışıklar söndü mü?
Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan, sanoo julistus.
func main() { for i := 0; i < 10; i++ { fmt.Println("x", i*i, a[i] != nil && b[i] == 0x1F) } }
SELECT name, count(*) FROM users WHERE id >= 100 GROUP BY name HAVING count(*) > 3 ORDER BY 2 DESC;
https://example.org/path/to/page?query=value&lang=de#top and user.name+tag@mail.example.com wrote it.
""".strip().split("\n")

HARD = [
    "", " ", "  ", "\t", "\n", "a", " a", "a ", "  a  b  ", "a\u00a0b", "a\u3000b", "a\u200bb", "a\u200db", "\ufeffa",
    "\u2581", "\u2581\u2581", "a\u2581b", "\u2581a", "a\u2581", " \u2581 ", "▁▁the", "hello", "Hello World", "HELLO WORLD",
    "ﬁne ﬂour oﬃce", "ｆｕｌｌ ｗｉｄｔｈ １２３", "㍿㎏㌔", "①②③ ⅷ ½ ¼ x² H₂O", "ﷺ ﷺ", "Å Å Å", "é é", "한국어 한국어", "ｶﾞｷﾞｸﾞ ガギグ",
    "가각갂", "ǅ ǆ Ǆ", "ſtraße STRASSE", "İstanbul ISPARTA ıI", "ΟΔΟΣ ὈΔΥΣΣΕΎΣ", "ﬀ\u0301", "e\u0301\u0302\u0303 q\u0307\u0323",
    "👍🏽 👨‍👩‍👧‍👦 🇩🇪 🏳️‍🌈", "🤖 robots 🤖🤖 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒻𝑜𝓃𝓉", "𠜎𠜱𠝹 𪜈", "ᚠᛇᚻ ᛒᛦᚦ", "ⴰⵎⴰⵣⵉⵖ አማርኛ ខ្មែរ བོད་", "\x00a\x00", "\x01\x02\x7f",
    "a\r\nb\r\n\r\nc", "a\x0bb\x0cc\x85d\u2028e\u2029f", "tab\tsep\t\tx", "<s>", "</s>", "<unk>", "<pad>", "a</s>b", "<0x41>",
    "<mask>", "a <mask> b", "<mask><mask>", "x<mask>y", "[SEP]a[SEP]", "[SEP][SEP", "[SEPP]", "<user><user>x", "<use", "ab<user>",
    "...", "!!!???", "---===---", "¿¡«»„“”‘’…—–", "1234567890", "3.14159e-26", "0xDEADBEEF", "$€£¥₹", "aaaaaaaaaaaaaaaaaaaaaaaa",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "antidisestablishmentarianism",
    "\ufffd", "a\ufffdb", "\ud7ff\ue000\uffff", "\U0010ffff", "שָׁלוֹם", "السَّلَامُ عَلَيْكُمْ", "ไม่มีช่องว่าง", "नमस्ते दुनिया",
    "The  quick   brown    fox", "the quick brown fox.The quick", "don't can't won't", "l’été d’Artagnan", "COVID-19 / SARS‑CoV‑2",
]
BYTES = [b"\xff", b"a\xffb", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
         b"\xc0\x80", b"ok \x80\x81\x82 ok", b"\xe2\x96", b"x\xe2\x96 y", b"\xf8\x88\x80\x80\x80"]


def random_texts(rng, count):
    """Words of the sentences in any order, with characters of any script and white space of any kind between."""
    words = [w for s in SENTENCES for w in s.split()]
    spaces = [" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u2003", "", "\u200b", "\u2581"]
    ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x52f), (0x590, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f),
              (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x2bff), (0x3040, 0x30ff), (0x3130, 0x33ff), (0x4e00, 0x9fff),
              (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe30, 0xffee), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff)]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            kind = rng.random()
            if kind < 0.6:
                parts.append(rng.choice(words))
            elif kind < 0.75:
                w = rng.choice(words)
                parts.append("".join(rng.sample(w, len(w))))
            else:
                lo, hi = rng.choice(ranges)
                parts.append("".join(chr(rng.randint(lo, hi)) for _ in range(rng.randint(1, 6))))
            parts.append(rng.choice(spaces))
        texts.append("".join(parts))
    return texts


def train(name, **options):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=out, model_type="unigram", num_threads=1,
        minloglevel=2, hard_vocab_limit=False, **options)
    proto = pb.ModelProto.FromString(out.getvalue())
    return name, out.getvalue(), proto


def ties():
    """A model in which almost all cuts of a text have the same score but for rounding."""
    proto = pb.ModelProto()
    proto.trainer_spec.model_type = 1
    proto.trainer_spec.unk_id = 0
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    kinds = pb.ModelProto.SentencePiece
    for piece, kind in [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]:
        proto.pieces.add(piece=piece, score=0, type=kind)
    for n in range(1, 6):
        for letters in itertools.product("abc", repeat=n):
            proto.pieces.add(piece="".join(letters), score=-0.1 * n, type=kinds.NORMAL)
    for piece, kind in [("acab", kinds.USER_DEFINED), ("bbbc", kinds.UNUSED)]:
        next(p for p in proto.pieces if p.piece == piece).type = kind
    return "ties", proto.SerializeToString(), proto


def main():
    rng = random.Random(7)
    texts = [t.encode("utf-8", "surrogatepass") for t in HARD + SENTENCES + random_texts(rng, 400)] + BYTES
    texts += [" ".join(rng.choices(SENTENCES, k=60)).encode(), "".join(rng.choices(SENTENCES, k=60)).encode(), ("ab" * 4000).encode()]
    texts += ["".join(rng.choices("abc", k=n)).encode() for n in (5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584)]
    texts += ["".join(rng.choices("abcd", k=n)).encode() for n in (8, 30, 300, 2000, 40000)]
    rules = sys.argv[1] + ".rules.tsv"
    with open(rules, "w") as f:  # code points in hex, from and to
        f.write("41\t61\n41 42\t78\n41 42 43\t79 20 7A\nE4\t61 65\n2D\t\n5F\t20\nDF\t73 73\n4F 20 4F\t6F\n")
    symbols = ["<mask>", "[SEP]", "<user>"]
    models = [
        train("nmt_nfkc, byte fallback, user-defined symbols", vocab_size=1400, character_coverage=0.98, byte_fallback=True,
              normalization_rule_name="nmt_nfkc", user_defined_symbols=symbols),
        train("nmt_nfkc", vocab_size=1000, character_coverage=0.98, normalization_rule_name="nmt_nfkc",
              user_defined_symbols=["the", "über <x>", "▁▁"]),
        train("nmt_nfkc, no prefix, white space kept", vocab_size=1000, character_coverage=0.98,
              normalization_rule_name="nmt_nfkc", add_dummy_prefix=False, remove_extra_whitespaces=False),
        train("identity, white space kept", vocab_size=1000, character_coverage=0.98, normalization_rule_name="identity",
              remove_extra_whitespaces=False, split_by_whitespace=False,
              max_sentencepiece_length=24),
        train("own rules", vocab_size=900, character_coverage=0.98, normalization_rule_tsv=rules, remove_extra_whitespaces=False),
    ]
    models.append(ties())
    result = {"texts": [base64.b64encode(t).decode() for t in texts], "maps": {}, "models": []}
    for name, raw, proto in models:
        sp = spm.SentencePieceProcessor(model_proto=raw)
        n = proto.normalizer_spec
        charsmap = base64.b64encode(n.precompiled_charsmap).decode()
        key = n.name
        result["maps"][key] = charsmap
        result["models"].append({
            "name": name, "map": key, "prefix": n.add_dummy_prefix, "collapse": n.remove_extra_whitespaces,
            "tokens": [p.piece for p in proto.pieces], "scores": [p.score for p in proto.pieces],
            "types": [p.type for p in proto.pieces], "unknown": proto.trainer_spec.unk_id,
            "ids": [sp.encode(t) for t in texts],
        })
        print(name, len(proto.pieces), "entries,", len(n.precompiled_charsmap), "bytes of rules", file=sys.stderr)
    os.remove(rules)
    data = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    with open(sys.argv[1], "wb") as f:
        f.write(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main()
