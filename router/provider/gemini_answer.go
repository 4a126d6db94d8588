package provider

import (
	"crypto/rand"
	"encoding/json"
	"io"
)

// geminiAnswer is an answer, or a piece of one.
type geminiAnswer struct {
	Candidates []struct {
		Index   int
		Content geminiContent
		Reason  string `json:"finishReason"`
		Message string `json:"finishMessage"`
	}
	Feedback struct {
		Blocked string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *geminiUsage `json:"usageMetadata"`
	Error *geminiError
}

// geminiUsage counts tokens; those of thoughts stand beside those of the answer.
type geminiUsage struct {
	Prompt   int64 `json:"promptTokenCount"`
	Tools    int64 `json:"toolUsePromptTokenCount"`
	Cached   int64 `json:"cachedContentTokenCount"`
	Answer   int64 `json:"candidatesTokenCount"`
	Thoughts int64 `json:"thoughtsTokenCount"`
}

func (u *geminiUsage) usage() usage {
	return usage{prompt: u.Prompt + u.Tools, cached: u.Cached, output: u.Answer + u.Thoughts, reasoning: u.Thoughts}
}

// geminiReason is why an answer ended, in the words of chats; "" is one that is of no use.
func geminiReason(word string) string {
	switch word {
	case "STOP", "FUNCTION_CALL": // Google says STOP of calls, too; other servers with this API do not
		return finishStop
	case "MAX_TOKENS":
		return finishLength
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return finishFiltered
	}
	return ""
}

// geminiState is what an answer has said so far.
type geminiState struct {
	calls  int
	reason string
}

// piece says what a piece of an answer says.
func (s *geminiState) piece(data []byte, to sink) error {
	var a geminiAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return unreadable("an event is no JSON of an answer: %w: %.200q", err, data)
	}
	if a.Error != nil {
		return a.Error.fault(a.Error.Code)
	}
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Index != 0 {
			return unreadable("one answer was asked for, and there is a second one")
		}
		for j := range c.Content.Parts {
			if err := s.part(&c.Content.Parts[j], to); err != nil {
				return err
			}
		}
		if c.Reason == "" || c.Reason == "FINISH_REASON_UNSPECIFIED" {
			continue
		}
		if s.reason = geminiReason(c.Reason); s.reason == "" {
			return unusable(c.Reason, c.Message)
		}
	}
	if a.Feedback.Blocked != "" {
		s.reason = finishFiltered
	}
	if a.Usage != nil {
		to.used(a.Usage.usage())
	}
	if s.reason == finishStop && s.calls > 0 {
		s.reason = finishCalls
	}
	return nil
}

func (s *geminiState) part(p *geminiPart, to sink) error {
	switch {
	case p.Call != nil && len(p.Call.Partial) > 0:
		return unreadable("arguments of a call come in pieces, which the request did not ask for")
	case p.Call != nil && p.Call.Name == "": // ends a call
	case p.Call != nil:
		s.calls++
		id := p.Call.ID
		if id == "" {
			id = "call_" + rand.Text()
		}
		to.call(id, p.Call.Name, p.Signature)
		arguments := string(p.Call.Args)
		if isNull(p.Call.Args) {
			arguments = "{}"
		}
		to.arguments(arguments)
	case p.Thought:
		to.thought(p.Text)
	default:
		to.text(p.Text)
	}
	return nil
}

func (gemini) whole(answer []byte, to sink) error {
	var s geminiState
	if err := s.piece(answer, to); err != nil {
		return err
	}
	if s.reason == "" {
		return unreadable("the answer has no finishReason: %.200q", answer)
	}
	to.finish(s.reason, "")
	return nil
}

func (gemini) frames(from io.Reader) frames { return newServerSent(from) }
func (gemini) decoder() decoder             { return &geminiDecoder{} }

// geminiDecoder reads the pieces of an answer. The last one is known by the end of the connection.
type geminiDecoder struct{ state geminiState }

func (d *geminiDecoder) read(_ string, data []byte, to *chunks) (over bool, err error) {
	before := d.state.reason
	if err := d.state.piece(data, to); err != nil {
		return true, err
	}
	if before == "" && d.state.reason != "" {
		to.finish(d.state.reason, "")
	}
	return false, nil
}
