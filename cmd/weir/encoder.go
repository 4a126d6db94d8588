package main

import (
	"weir/api/openai"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/telemetry"
)

// poolerOf is what the edge knows of an encoder.
func poolerOf(m *model) *openai.Pooler {
	i := m.info()
	p := &openai.Pooler{Embedder: m.encoder, Dimensions: i.Dimensions, Labels: i.Scores}
	if i.Scores > 0 {
		p.PairTemplate, p.PairTypes = m.pairTemplate, i.TokenTypes > 1 && m.pairTemplate == ""
	}
	return p
}

// pairTemplateKey is where converters put the text that a reranker of language
// models reads of a pair, with {query} and {document} in it.
const pairTemplateKey = "tokenizer.chat_template.rerank"

// encoderSnapshot is what a scrape reads of an encoder.
func encoderSnapshot(e *llm.Encoder) telemetry.Snapshot {
	s := e.Stats()
	snap := telemetry.Snapshot{
		Running: s.Running, Waiting: s.Waiting, WaitingTokens: s.WaitingTokens,
		PromptTokens: s.Tokens, Steps: s.Passes, StepPanics: s.Panics,
	}
	for c := range inference.Class(inference.NumClasses) {
		snap.Classes = append(snap.Classes, telemetry.Class{Name: c.String()})
	}
	return snap
}
