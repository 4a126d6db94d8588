package moderation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Report gathers what a policy has found in the texts of one request, and never the texts.
// One goroutine at a time uses it.
type Report struct{ Findings []Finding }

// Finding is what one rule has found on one side of a request.
type Finding struct {
	Policy   string
	Rule     string
	Category string
	Side     Side
	Action   Action
	Score    float64 // of a classifier; 1 of other rules
	Count    int     // matches
	Bytes    int     // of all matches together; of a classifier, of the text
	Digest   string  // of the first match, by a key of the process: it tells repetitions
}

// digestBytes of the hash are shown.
const digestBytes = 8

// maxFindings of one report are told apart; further ones are counted with the last.
const maxFindings = 64

func (r *Report) add(p *Policy, rule *rule, a Action, text string) {
	r.count(p, rule, a, 1, text)
}

func (r *Report) count(p *Policy, rule *rule, a Action, score float64, text string) {
	side := rule.side
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Rule == rule.id && f.Category == rule.category && f.Action == a && f.Side == side {
			f.Count++
			f.Bytes += len(text)
			return
		}
	}
	if len(r.Findings) >= maxFindings {
		return
	}
	h := hmac.New(sha256.New, p.secret)
	_, _ = h.Write([]byte(text)) // a hash takes all
	r.Findings = append(r.Findings, Finding{Policy: p.name, Rule: rule.id, Category: rule.category, Side: side, Action: a,
		Score: score, Count: 1, Bytes: len(text), Digest: hex.EncodeToString(h.Sum(nil)[:digestBytes])})
}

// Blocked is the first finding that refuses or ends something; nil: there is none.
func (r *Report) Blocked() *Finding {
	if r == nil {
		return nil
	}
	for i := range r.Findings {
		if r.Findings[i].Action == Block {
			return &r.Findings[i]
		}
	}
	return nil
}
