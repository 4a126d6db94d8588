package models

// Texts gives the texts of prompts of token ids, control tokens included.
func (m *Model) Texts(ids [][]int32) []string {
	texts := make([]string, len(ids))
	for i := range ids {
		var text []byte
		d := m.Tokenizer.NewDecoder(true)
		for _, id := range ids[i] {
			text = d.Append(text, id)
		}
		texts[i] = string(d.Flush(text))
	}
	return texts
}
