package models

import (
	"weir/internal/inference"
	"weir/tokenizer/chat"
)

// Decision is how a model is asked for decisions, as its file says: the template writes a question, its options and what they are about as
// one sequence. Text encoders give a score at the mark before each option. Language models answer with the label of an option, the token
// behind the sequence, or have a head that reads the mark behind each option.
type Decision struct {
	Type      string            // decision.type
	Template  *chat.Template    // tokenizer.chat_template.systemone
	Mark      inference.TokenID // of each option, with a head
	Separator inference.TokenID // of text encoders: stands before the first option, behind the last one, and at the end
	// HeadTokens are those that question and options may have together with a text encoder, which was trained with longer ones cut.
	HeadTokens int

	// Temperatures are what scores are divided by, by the type of a question (choice, score, noul) or by that and the number of its options
	// (choice.2, choice.3_5, choice.6_10, choice.11 for more; of lev choice.small to 8, choice.mid to 26, choice.large). 1 where there is none.
	Temperatures map[string]float64
}

// lev is the decision.type whose temperatures have other names.
const lev = "lev"

// Temperature is that of a question of a type with so many options.
func (d *Decision) Temperature(kind string, options int) float64 {
	for _, key := range []string{kind + d.bucket(options), kind} {
		if t, ok := d.Temperatures[key]; ok {
			return t
		}
	}
	return 1
}

func (d *Decision) bucket(options int) string {
	switch {
	case d.Type == lev && options <= 8:
		return ".small"
	case d.Type == lev && options <= 26:
		return ".mid"
	case d.Type == lev:
		return ".large"
	case options <= 2:
		return ".2"
	case options <= 5:
		return ".3_5"
	case options <= 10:
		return ".6_10"
	}
	return ".11"
}
