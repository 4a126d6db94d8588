package job

import (
	"slices"

	"weir/api/openai/models"
	"weir/internal/inference"
)

// Prompt is one prompt of a request: its ids, and its text where it is echoed.
type Prompt struct {
	IDs  []inference.TokenID
	Text string
}

// truncate keeps the last tokens of a prompt, or the first ones.
func (p *Prompt) truncate(keep int, first bool, m *models.Model) {
	if keep == 0 || len(p.IDs) <= keep {
		return
	}
	ids := p.IDs[len(p.IDs)-keep:]
	if first {
		ids = p.IDs[:keep]
	}
	p.IDs = slices.Clone(ids) // the rest is let go of
	p.Text = m.Tokenizer.Decode(p.IDs, false)
}
