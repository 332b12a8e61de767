package control

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The tables of docs/control.md are those of the code.
func TestDocs(t *testing.T) {
	const file, begin, end = "../docs/control.md", "<!-- tools -->\n", "<!-- end of tools -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tools", file)
	}
	golden(t, file, []byte(before+begin+tools()+end+after))
}

func tools() string {
	rows := table()
	var b strings.Builder
	b.WriteString("| tool | class | `herdr` command | prints | what it is for |\n|---|---|---|---|---|\n")
	for i := range rows {
		t := &rows[i]
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", t.name, t.class, t.template(), t.output, t.description)
	}
	b.WriteString("\n| argument | of | what it is |\n|---|---|---|\n")
	seen := map[string]bool{}
	for i := range rows {
		for _, a := range rows[i].args {
			row := fmt.Sprintf("%s: %s", a.name, a.schema.JSON())
			if seen[row] {
				continue
			}
			seen[row] = true
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.name, users(rows, a), a.words())
		}
	}
	return b.String()
}

// users are the tools with exactly that argument.
func users(rows []tool, a argument) string {
	var names []string
	for i := range rows {
		for _, other := range rows[i].args {
			if other.name == a.name && string(other.schema.JSON()) == string(a.schema.JSON()) && other.schema.Rule == a.schema.Rule {
				names = append(names, strings.TrimPrefix(rows[i].name, "herdr_"))
			}
		}
	}
	return strings.Join(names, ", ")
}

// words says what an argument is.
func (a argument) words() string {
	s := a.schema
	var w []string
	items := s
	if s.Items != nil {
		items = *s.Items
		w = append(w, fmt.Sprintf("a list of at most %d", s.MaxItems))
	}
	switch {
	case items.Enum != nil:
		w = append(w, "`"+strings.Join(items.Enum, "` `")+"`")
	case s.Min != nil:
		w = append(w, fmt.Sprintf("%s %v to %v", s.Type, *s.Min, *s.Max))
	case items.Rule != "":
		w = append(w, items.Rule)
	case s.Type == "boolean":
		w = append(w, "true or false")
	}
	if items.MaxLength > 0 {
		w = append(w, fmt.Sprintf("%d to %d characters", items.MinLength, items.MaxLength))
	}
	if items.MaxBytes > 0 {
		w = append(w, fmt.Sprintf("at most %d bytes", items.MaxBytes))
	}
	if s.Default != nil {
		w = append(w, fmt.Sprintf("default `%v`", s.Default))
	}
	if s.Description != "" {
		w = append(w, s.Description)
	}
	return strings.ReplaceAll(strings.Join(w, "; "), "|", `\|`)
}

// template is the command with the names of the arguments in it.
func (t *tool) template() string {
	text := t.command
	if t.name == "herdr_doctor" {
		return "--version, status --json, integration status"
	}
	if t.name == "herdr_pane_current" {
		text += " --pane $HERDR_PANE_ID"
	}
	for _, a := range t.args {
		if a.name == argPreview || a.name == argToken {
			continue
		}
		part := a.name
		switch {
		case a.schema.Type == "boolean":
			part = a.flag
		case a.flag != "":
			part = a.flag + " " + a.name
		}
		optional := !a.required && a.schema.Default == nil || a.schema.Type == "boolean" || t.name == "herdr_agent_prompt" && a.name == argTimeout
		if optional {
			part = "[" + part + "]"
		}
		if a.schema.Type == "array" {
			part += "…"
		}
		text += " " + part
	}
	return strings.Join(append([]string{text}, t.tail...), " ")
}
