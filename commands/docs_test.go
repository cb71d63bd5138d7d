package commands

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/choria-io/fisk"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"choria-provision/config"
)

func document(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exitMeanings reads the table of exit codes in docs/operations.md.
func exitMeanings(t *testing.T) []codeMeaning {
	t.Helper()
	var meanings []codeMeaning
	rows := regexp.MustCompile(`(?m)^\| (\d) \| ([^|]+) \|`).FindAllStringSubmatch(document(t, "../docs/operations.md"), -1)
	for _, row := range rows {
		code, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		meanings = append(meanings, codeMeaning{code, roff(strings.ReplaceAll(row[2], "`", ""))})
	}
	return meanings
}

// exitConstants reads the codes from exit.go, so that a new one is missed here.
func exitConstants(t *testing.T) []int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []int
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.INT {
			code, err := strconv.Atoi(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	return codes
}

func TestEveryExitCodeIsExplained(t *testing.T) {
	t.Parallel()
	var got []int
	for _, row := range exitMeanings(t) {
		got = append(got, row.Code)
	}
	if diff := cmp.Diff(exitConstants(t), got); diff != "" {
		t.Errorf("exit codes of docs/operations.md (-want +got):\n%s", diff)
	}
}

// keysOf lists the configuration's keys with their values, nested ones with a
// dot.
func keysOf(value reflect.Value, prefix string) map[string]any {
	keys := map[string]any{}
	for i := range value.NumField() {
		if !value.Type().Field(i).IsExported() {
			continue
		}
		name := value.Type().Field(i).Tag.Get("yaml")
		switch field := value.Field(i).Interface().(type) {
		case config.Features, config.Pushgateway:
			for key, v := range keysOf(reflect.ValueOf(field), name+".") {
				keys[key] = v
			}
		default:
			if name != "-" {
				keys[prefix+name] = field
			}
		}
	}
	return keys
}

func TestEveryKeyIsExplained(t *testing.T) {
	t.Parallel()
	text := document(t, "../docs/configuration.md")
	rows := map[string]string{} // key to its default as written
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z0-9_.`, ]+`) \\| ([^|]*) \\|").FindAllStringSubmatch(text, -1) {
		for key := range strings.SplitSeq(row[1], ", ") {
			rows[strings.Trim(key, "`")] = row[2]
		}
	}
	for key, value := range keysOf(reflect.ValueOf(*config.Default()), "") {
		written, found := rows[key]
		if !found {
			t.Errorf("docs/configuration.md does not explain %s", key)
			continue
		}
		if want, fixed := fixedDefault(value); fixed && !strings.Contains(written, "`"+want+"`") {
			t.Errorf("docs/configuration.md: %s has the default %s, want %s", key, written, want)
		}
		delete(rows, key)
	}
	for key := range rows {
		if strings.ToLower(key) == key { // others are variables of the environment
			t.Errorf("docs/configuration.md explains %s, which is no key", key)
		}
	}
}

// fixedDefault is a default that a document can hold: no empty text, and no
// number that may depend on the machine.
func fixedDefault(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, v != ""
	case bool:
		return strconv.FormatBool(v), true
	case config.Duration:
		return v.String(), true
	default:
		return "", false
	}
}

// flagsIn maps every command, by its full name, to its flags; the empty name is
// the program's own.
func flagsIn(model *fisk.ApplicationModel) map[string][]string {
	all := map[string][]string{"": flagNames(model.Flags)}
	for _, c := range model.FlattenedCommands() {
		all[c.FullCommand] = append(flagNames(c.Flags), all[""]...)
	}
	return all
}

// documentedCommand finds `provision …` as it is typed; what ends a command in a
// shell or in prose ends it here.
var documentedCommand = regexp.MustCompile("(?m)(?:^ *|[`;] ?|bin/|-- )provision ((?:--?[a-z-]+|[a-z]+)[^`'\n#;]*)")

// TestDocumentedCommandsExist holds that every command in the documents is one,
// and every flag beside it is that command's.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	known := flagsIn(newApp(Streams{}).cli.Model())
	seen := 0
	for _, path := range documentPaths(t) {
		for _, match := range documentedCommand.FindAllStringSubmatch(document(t, path), -1) {
			seen++
			line, _, _ := strings.Cut(match[1], " -- ")
			words := strings.Fields(line)
			command := commandIn(words, known)
			if command == "" && !strings.HasPrefix(words[0], "-") {
				t.Errorf("%s: provision %s: there is no such command", path, line)
				continue
			}
			for _, word := range words {
				if flag, ok := strings.CutPrefix(word, "--"); ok && !slices.Contains(known[command], flag) {
					t.Errorf("%s: provision %s: there is no flag --%s", path, line, flag)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("found %d commands in the documents, want the many they hold", seen)
	}
}

// commandIn is the longest command that the words begin with.
func commandIn(words []string, known map[string][]string) string {
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		for command := range known {
			if command == name || strings.HasPrefix(command, name+" ") {
				return name
			}
		}
	}
	return ""
}

// TestHelperDocumentHoldsTheExample keeps the copy in docs/helper.md true.
func TestHelperDocumentHoldsTheExample(t *testing.T) {
	t.Parallel()
	if !strings.Contains(document(t, "../docs/helper.md"), document(t, "../examples/helper.sh")) {
		t.Error("docs/helper.md does not hold examples/helper.sh as it is")
	}
}

// TestMigrationExplainsEveryKeyOfThePeer reads the keys from a whole file of the
// peer's, older releases' included.
func TestMigrationExplainsEveryKeyOfThePeer(t *testing.T) {
	t.Parallel()
	var peer map[string]any
	if err := yaml.Unmarshal([]byte(document(t, "../config/testdata/peer.yaml")), &peer); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key, value := range peer {
		nested, ok := value.(map[string]any)
		if !ok {
			keys = append(keys, key)
		}
		for below := range nested {
			keys = append(keys, key+"."+below)
		}
	}
	table := document(t, "../docs/migration.md")
	for _, key := range keys {
		if !regexp.MustCompile("(?m)^\\| .*`" + regexp.QuoteMeta(key) + "`.* \\|").MatchString(table) {
			t.Errorf("docs/migration.md does not explain %s", key)
		}
	}
	if len(keys) < 25 {
		t.Errorf("got %d keys in testdata/peer.yaml, want all of the peer's", len(keys))
	}
	if !strings.Contains(document(t, "../README.md"), "(docs/migration.md)") {
		t.Error("the README does not link docs/migration.md")
	}
}

// TestReadyMadeJobsTestAHelper runs the scripts of the CI jobs in
// examples/ci as their CI would: in the root of a repository that has the
// helper and the script in provision/.
func TestReadyMadeJobsTestAHelper(t *testing.T) {
	t.Parallel()
	var gitlab struct {
		Helper struct{ Script []string }
	}
	readYAML(t, "../examples/ci/gitlab.yml", &gitlab)
	var github struct {
		Jobs struct {
			Helper struct{ Steps []struct{ Name, Run string } }
		}
	}
	readYAML(t, "../examples/ci/github.yml", &github)
	jobs := map[string]string{"gitlab": strings.Join(gitlab.Helper.Script, "\n")}
	for _, step := range github.Jobs.Helper.Steps {
		if step.Name == "Test the helper" {
			jobs["github"] = step.Run
		}
	}
	for name, script := range jobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository := t.TempDir()
			if err := os.Mkdir(filepath.Join(repository, "provision"), 0o755); err != nil {
				t.Fatal(err)
			}
			for from, to := range map[string]string{"../examples/helper.sh": "provision/helper.sh", "../examples/ci/test-helper.sh": "provision/test-helper.sh"} {
				if err := os.WriteFile(filepath.Join(repository, to), []byte(document(t, from)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command("sh", "-euc", script)
			command.Dir = repository
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
			result := document(t, filepath.Join(repository, "provision.xml"))
			if got := strings.Count(result, "<testcase"); got != 6 || strings.Contains(result, "<failure") {
				t.Errorf("got %d test cases, want 6 without a failure:\n%s", got, result)
			}
		})
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(document(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
