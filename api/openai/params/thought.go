package params

// Reasoning says under which fields of a message a thought is told. vLLM and
// OpenRouter write reasoning, llama-server, SGLang and DeepSeek reasoning_content, and
// clients read one of them or both.
type Reasoning string

// The names of a thought.
const (
	ReasoningBoth    Reasoning = "both"
	ReasoningContent Reasoning = "reasoning_content"
	ReasoningOnly    Reasoning = "reasoning"
)

var (
	// BothReasoningNames are all fields that tell a thought.
	BothReasoningNames = []string{"reasoning_content", "reasoning"}
	reasoningNames     = map[Reasoning][]string{
		ReasoningBoth: BothReasoningNames, ReasoningContent: BothReasoningNames[:1], ReasoningOnly: BothReasoningNames[1:],
	}
)

// Names are the fields, in the order in which they are written; nil: r is none of the three.
func (r Reasoning) Names() []string { return reasoningNames[r] }
