package family

// candidates are the families in the order in which a template is tried: those with the rarer marks first.
var candidates = []candidate{
	{name: "hermes", calls: hermes, has: []string{"<tool_call>"}},
}

// thoughts are the markers of thoughts, in the order in which a template is searched for them.
var thoughts = []*thought{think}
