package choice

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/api/moderation"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/tokenizer/family"
)

// divided gives a part's bytes in pieces, as a parser may.
func divided(r *rand.Rand, p family.Part) (list []family.Part) {
	if len(p.Bytes) == 0 {
		return []family.Part{p}
	}
	for rest := p.Bytes; len(rest) > 0; {
		n := 1 + r.IntN(min(len(rest), 5))
		piece := p
		piece.Bytes = rest[:n]
		list, rest = append(list, piece), rest[n:]
	}
	return list
}

// toldBy is what a guard tells of parts, with neighbours of one kind joined.
func toldBy(g *guard, batches [][]family.Part, hidden bool) string {
	var b strings.Builder
	last := ""
	tell := func(parts []family.Part) {
		for i := range parts {
			p := &parts[i]
			if head := fmt.Sprintf("%d/%d", p.Kind, p.Call); p.Kind == family.CallStart || head != last {
				b.WriteString("|" + map[family.Kind]string{family.Content: "text", family.Reasoning: "thought", family.CallStart: "call " + p.Name,
					family.CallArguments: "arguments", family.CallEnd: "end"}[p.Kind] + ":")
				last = head
			}
			b.Write(p.Bytes)
		}
	}
	for _, batch := range batches {
		parts, blocked := g.screen(batch, hidden)
		if tell(parts); blocked {
			return b.String() + "|blocked"
		}
	}
	parts, blocked := g.close()
	if tell(parts); blocked {
		b.WriteString("|blocked")
	}
	return b.String()
}

// Thoughts, text and arguments pass through a policy each for itself, however they are divided.
func TestGuardReadsEveryKindOfPart(t *testing.T) {
	part := func(k family.Kind, call int, text string) family.Part {
		p := family.Part{Kind: k, Call: call, Bytes: []byte(text)}
		if k == family.CallStart {
			p.Name, p.Bytes = text, nil
		}
		return p
	}
	repaired := part(family.CallArguments, 0, `"}`)
	repaired.Repaired = true
	policy, err := moderation.New(moderation.Spec{Name: "house", Rules: []moderation.RuleSpec{
		{ID: "bombs", Category: "violence", Words: []string{"pipe bomb"}, Input: moderation.Block, Output: moderation.Block},
		{ID: "mail", PII: []string{"email"}, Input: moderation.Flag, Output: moderation.Redact},
	}}, moderation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &models.Model{Policy: policy}
	for _, c := range []struct {
		name   string
		hidden bool
		parts  []family.Part
		want   string
	}{
		{"all kinds", false, []family.Part{
			part(family.Reasoning, 0, "I mail ann@example.org"), part(family.Content, 0, "Mail to bob@example.org"),
			part(family.CallStart, 0, "send"), part(family.CallArguments, 0, `{"to":"ann\u0040example.org"}`), part(family.CallEnd, 0, ""),
			part(family.CallStart, 1, "send"), part(family.CallArguments, 1, `{"to":"eve@example.org"}`), part(family.CallEnd, 1, ""),
			part(family.Content, 0, "a pipe"),
		}, `|thought:I mail [email]|text:Mail to [email]|call send:|arguments:{"to":"[email]"}|call send:|arguments:{"to":"[email]"}|text:a pipe`},
		{"a hidden thought", true, []family.Part{part(family.Reasoning, 0, "a pipe bomb"), part(family.Content, 0, "no")}, `|thought:a pipe bomb|text:no`},
		{"a thought is blocked", false, []family.Part{part(family.Reasoning, 0, "say: a pipe bomb"), part(family.Content, 0, "no")}, `|thought:say: a |blocked`},
		{"arguments are blocked", false, []family.Part{part(family.CallStart, 0, "f"), part(family.CallArguments, 0, `{"a":"pipe\nbomb"}`), part(family.CallEnd, 0, "")},
			`|call f:|arguments:{"a":"|blocked`},
		{"a repaired end", false, []family.Part{part(family.CallStart, 0, "f"), part(family.CallArguments, 0, `{"a":"ann@example.org`), repaired, part(family.CallEnd, 0, "")},
			`|call f:|arguments:{"a":"[email]"}`},
		{"kinds are apart", false, []family.Part{part(family.Reasoning, 0, "a pipe "), part(family.Content, 0, "bomb")}, `|thought:a pipe |text:bomb`},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 50 {
			var batches [][]family.Part
			for _, p := range c.parts {
				pieces := []family.Part{p}
				if i > 0 && !p.Repaired {
					pieces = divided(r, p)
				}
				for _, piece := range pieces {
					batches = append(batches, []family.Part{piece})
				}
			}
			g := newGuard(&job.Job{Model: m, Params: &params.Params{Stream: true}, Moderated: &moderation.Report{}})
			got := strings.ReplaceAll(toldBy(g, batches, c.hidden), "|end:", "")
			if got != c.want {
				t.Fatalf("%s: told %s, want %s", c.name, got, c.want)
			}
		}
	}
	if newGuard(&job.Job{Model: &models.Model{}, Params: &params.Params{}}) != nil {
		t.Error("a model without a policy has a guard")
	}
}
