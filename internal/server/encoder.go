package server

import (
	"weir/api/openai/models"
	"weir/engine/llamacpp"
	"weir/engine/llm"
	"weir/internal/inference"
	"weir/internal/server/local"
	"weir/telemetry"
)

// poolerOf is what the edge knows of an encoder.
func poolerOf(m *local.Model) *models.Pooler {
	i := m.Info()
	p := &models.Pooler{Embedder: m.Encoder, Dimensions: i.Dimensions}
	switch {
	case m.Decision != nil:
		p.Decision = decisionOf(m)
	case i.Ranks():
		p.Labels, p.PairTemplate, p.PairTypes = i.Scores, m.PairTemplate, i.TokenTypes > 1 && m.PairTemplate == ""
	case i.Scores > 0:
		p.Classes = i.Labels
	}
	return p
}

// decisionOf is how a model's file says that it is asked for decisions; nil: it does not.
func decisionOf(m *local.Model) *models.Decision {
	if m.Decision == nil {
		return nil
	}
	d := models.Decision(*m.Decision)
	return &d
}

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

// llamaCppSnapshot is what a scrape reads of an engine that counts no steps.
func llamaCppSnapshot(e *llamacpp.Engine) telemetry.Snapshot {
	l := e.Load()
	snap := telemetry.Snapshot{Running: l.Running, Waiting: l.Waiting, WaitingTokens: l.WaitingTokens}
	for c := range inference.Class(inference.NumClasses) {
		snap.Classes = append(snap.Classes, telemetry.Class{Name: c.String()})
	}
	return snap
}
