package job

import (
	"weir/api/openai/digest"
	"weir/api/replay"
)

// Repeatable reports whether the job would give the same tokens again, and nothing but
// tokens.
func (j *Job) Repeatable() bool {
	p := j.Params
	return p.N == 1 && !p.Logprobs && p.Sampling.Logprobs < 0 && j.PromptLogprobs < 0 && (p.Sampling.Temperature == 0 || p.Seeded)
}

// Hash is over all that decides on a repeatable job's tokens: the model, the
// prompts' token ids (and with them the template), the sampler's parameters and what ends
// an answer.
func (j *Job) Hash() replay.Hash {
	d := digest.New()
	d.Text(j.Model.ID)
	d.Text(j.Model.Version)
	d.Number(uint64(len(j.Prompts)))
	for i := range j.Prompts {
		d.Request(j.request(i))
	}
	d.Text(j.ConstraintKey)
	WriteReading(d, j.Reading)
	d.Flag(j.Params.Special) // stop strings are looked for in the text
	d.Flag(j.Params.Stops.Include)
	for i := range j.Params.Stops.Patterns {
		d.Text(j.Params.Stops.Patterns[i].Text)
	}
	return replay.Hash(d.Sum(nil))
}
