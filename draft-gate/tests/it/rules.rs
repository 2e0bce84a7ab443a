//! Tests of the rules for added lines.

use draft_gate::{Severity, scan};

fn found(line: &str) -> Vec<String> {
    scan("a.txt", &[(1, line.to_owned())]).into_iter().map(|it| it.rule).collect()
}

/// Builds random-looking text at run time, so that secret scanners do not report this file.
fn random(length: usize, alphabet: &str) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 12_345_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[(state >> 33) as usize % alphabet.len()]
    };
    (0..length).map(|_| next()).collect()
}

const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

#[test]
fn all_kinds_of_keys_are_detected() {
    let mixed = |length| random(length, MIXED);
    let hex = |length| random(length, HEX);
    let letters = random(34, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    for (rule, key) in [
        ("aws-access-key", format!("AKIA{}", random(16, UPPER))),
        ("aws-secret-key", format!("aws_secret_access_key = {}", mixed(40))),
        ("google-api-key", format!("AIza{}", mixed(35))),
        ("google-oauth-secret", format!("GOCSPX-{}", mixed(28))),
        ("gcp-service-account", format!("\"private_key_id\": \"{}\"", hex(40))),
        ("azure-storage-key", format!("AccountKey={}==", mixed(86))),
        ("azure-ad-client-secret", format!("= \"{}8Q~{}\"", mixed(3), mixed(34))),
        ("digitalocean-token", format!("dop_v1_{}", hex(64))),
        ("alibaba-access-key", format!("LTAI{}", mixed(20))),
        ("heroku-token", format!("HRKU-{}", mixed(60))),
        ("fly-token", format!("fo1_{}", mixed(43))),
        ("databricks-token", format!("dapi{}", hex(32))),
        ("cloudflare-origin-key", format!("v1.0-{}-{}", hex(24), hex(146))),
        ("github-token", format!("ghp_{}", mixed(36))),
        ("github-fine-grained-token", format!("github_pat_{}_{}", mixed(22), mixed(59))),
        ("gitlab-token", format!("glpat-{}", mixed(20))),
        ("bitbucket-token", format!("ATBB{}", mixed(32))),
        ("atlassian-token", format!("ATATT3{}", mixed(186))),
        ("npm-token", format!("npm_{}", mixed(36))),
        ("pypi-token", format!("pypi-AgE{}", mixed(80))),
        ("rubygems-token", format!("rubygems_{}", hex(48))),
        ("crates-io-token", format!("cio{}", mixed(32))),
        ("docker-token", format!("dckr_pat_{}", mixed(27))),
        ("anthropic-key", format!("sk-ant-api03-{}", mixed(95))),
        ("openai-key", format!("sk-proj-{}", mixed(48))),
        ("sk-key", format!("sk-{}", mixed(48))),
        ("groq-key", format!("gsk_{}", mixed(52))),
        ("huggingface-token", format!("hf_{letters}")),
        ("replicate-token", format!("r8_{}", mixed(37))),
        ("perplexity-key", format!("pplx-{}", mixed(48))),
        ("xai-key", format!("xai-{}", mixed(80))),
        ("langsmith-key", format!("lsv2_pt_{}_{}", hex(32), hex(10))),
        ("stripe-key", format!("sk_live_{}", mixed(24))),
        ("square-token", format!("sq0atp-{}", mixed(22))),
        ("shopify-token", format!("shpat_{}", hex(32))),
        ("sendgrid-key", format!("SG.{}.{}", mixed(22), mixed(43))),
        ("mailgun-key", format!("key-{}", hex(32))),
        ("mailchimp-key", format!("{}-us12", hex(32))),
        ("brevo-key", format!("xkeysib-{}-{}", hex(64), mixed(16))),
        ("twilio-key", format!("SK{}", hex(32))),
        ("slack-token", format!("xoxb-{}", mixed(40))),
        ("slack-webhook", format!("https://hooks.slack.com/services/{}", mixed(44))),
        (
            "discord-webhook",
            format!("https://discord.com/api/webhooks/123456789012345678/{}", mixed(68)),
        ),
        ("discord-token", format!("bot M{}.{}.{}", mixed(24), mixed(6), mixed(30))),
        ("telegram-token", format!("123456789:AA{}", mixed(33))),
        (
            "teams-webhook",
            format!(
                "https://x.webhook.office.com/webhookb2/{}@{}/IncomingWebhook/{}",
                hex(36),
                hex(36),
                hex(32)
            ),
        ),
        ("notion-token", format!("secret_{}", mixed(43))),
        ("linear-key", format!("lin_api_{}", mixed(40))),
        ("airtable-token", format!("pat{}.{}", mixed(14), hex(64))),
        ("figma-token", format!("figd_{}", mixed(40))),
        ("postman-key", format!("PMAK-{}-{}", hex(24), hex(34))),
        ("grafana-token", format!("glsa_{}_{}", mixed(32), hex(8))),
        ("newrelic-key", format!("NRAK-{}", random(27, UPPER))),
        ("sentry-token", format!("sntryu_{}", hex(64))),
        ("vault-token", format!("hvs.{}", mixed(95))),
        ("terraform-token", format!("{}.atlasv1.{}", mixed(14), mixed(67))),
        ("pulumi-token", format!("pul-{}", hex(40))),
        ("doppler-token", format!("dp.pt.{}", mixed(43))),
        ("1password-token", format!("ops_eyJ{}", mixed(250))),
        ("age-key", format!("AGE-SECRET-KEY-1{}", random(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"))),
        ("private-key", format!("-----BEGIN RSA {} KEY-----", "PRIVATE")),
        ("putty-key", format!("PuTTY-User-Key-{}: ssh-rsa", "File-2")),
        ("jwt", format!("eyJ{}.eyJ{}.{}", mixed(20), mixed(40), mixed(40))),
        ("url-password", format!("postgres://app:{}@db/x", mixed(16))),
        ("bearer-header", format!("Authorization: Bearer {}", mixed(30))),
        ("prefixed-token", format!("apify_api_{}", mixed(36))),
        ("prefixed-hex-token", format!("e2b_{}", hex(40))),
        ("token-form", format!("lip_{}", mixed(20))),
        ("prefixed-uuid-token", format!("waka_{0}-{1}-{1}-{1}-{2}", hex(8), hex(4), hex(12))),
        ("structured-token", format!("1000.{0}.{0}", hex(32))),
        ("unlisted-token", format!("acme_live_{}", mixed(32))),
        ("assigned-key", format!("maps_key = \"{}\"", mixed(32))),
        ("token-literal", format!("secrets set --value {}", mixed(40))),
        ("secret-address", format!("https://mainnet.infura.io/v3/{}", hex(32))),
        ("encoded-key-body", format!("MIIEvQIBADAN{}", mixed(60))),
        ("structured-private-key", format!("{{\"d\": \"{}\"}}", mixed(43))),
        ("url-random-token", format!("redis://{}@host:6379", mixed(24))),
        ("unseal-key", format!("Unseal Key 1: {}", mixed(44))),
        ("command-password", format!("plink -ssh host -pw {}", mixed(12))),
        ("cipher-argument", format!("AES.new(b\"{}\", mode)", mixed(16))),
        ("sonar-login", format!("sonar.login={}", hex(40))),
        ("phrase-password", format!("mot de passe : {}", mixed(12))),
        (
            "encoded-service-account",
            format!("ewogICJ0eXBlIjogInNlcnZpY2VfYWNjb3VudCI{}", mixed(60)),
        ),
        ("assigned-password", format!("db_password = \"{}\"", mixed(20))),
        ("assigned-secret", format!("api_token = \"{}\"", mixed(20))),
    ] {
        assert!(found(&key).iter().any(|it| it == rule), "{rule}: {:?} in {key}", found(&key));
        assert!(
            found(&format!("  let x = \"{key}\";")).len() + found(&format!("x: {key}")).len() > 0,
            "{rule} in code"
        );
    }
}

/// Passwords that a person would choose must be detected, although they are short and have low entropy.
#[test]
fn plain_passwords_are_detected() {
    for (rule, line) in [
        ("assigned-password", "password = \"Tr0ub4dor&3\""),
        ("assigned-password", "passwd = 'qX7!kk29Lm'"),
        ("assigned-password", "password = \"hunter2hunter2x9Q\""),
        ("assigned-password", "config[\"password\"] = \"letmein1\""),
        ("assigned-password", "const PASSWORD: &'static str = \"hunter22\";"),
        ("assigned-password", "password: str = 'hunter22'"),
        ("assigned-password", "connect(db, password=\"s3cretpw\")"),
        ("assigned-password", "{\"password\": \"correct&horse\"}"),
        ("assigned-password", "<password>hunter2</password>"),
        ("url-plain-password", "postgres://admin:Pa55w0rd@db/x"),
        ("url-plain-password", "redis://:Pa55w0rd@cache:6379"),
        ("url-plain-password", "https://me:p%40ssw0rd@host/"),
        ("curl-password", "curl -s -u admin:Pa55w0rd https://host/"),
        ("curl-password", "curl --user=admin:Pa55w0rd https://host/"),
        ("assigned-secret", "const API_TOKEN: &str = \"h7Gk29sLmQ8zXw3RtY\";"),
    ] {
        let findings = scan("a.txt", &[(1, line.to_owned())]);
        let found = findings.iter().find(|it| it.rule == rule);
        assert_eq!(found.map(|it| it.severity), Some(Severity::Reject), "{line}: {findings:?}");
    }
    // Without quotes, the value may be something other than a password, so it is only escalated.
    for line in [
        "password: hunter2", "DB_PASSWORD=hunter2 make", "export PGPASSWORD=Summer2024",
        "mysql --password hunter2",
    ] {
        let findings = scan("a.txt", &[(1, line.to_owned())]);
        let seen: Vec<_> = findings.iter().map(|it| (it.rule.as_str(), it.severity)).collect();
        assert_eq!(seen, [("plain-password", Severity::Escalate)], "{line}");
        assert!(!findings[0].text.contains("unter2") && !findings[0].text.contains("ummer"));
    }
}

/// The name and the value of a setting are often on separate lines.
#[test]
fn values_of_named_fields_are_found_on_the_next_line() {
    let rules = |path: &str, name: &str, value: &str| {
        let findings = scan(path, &[(1, name.to_owned()), (2, value.to_owned())]);
        findings.into_iter().map(|it| (it.rule, it.line)).collect::<Vec<_>>()
    };
    let token = random(32, MIXED);
    for (path, name, value, rule) in [
        ("a.yaml", "  - name: DB_PASSWORD", "    value: hunter2hunter", "assigned-password"),
        (
            "a.json",
            "\"name\": \"API_TOKEN\",",
            &format!("\"value\": \"{token}\""),
            "assigned-secret",
        ),
        ("a.plist", "<key>apiKey</key>", &format!("<string>{token}</string>"), "assigned-secret"),
        ("a.tf", "variable \"db_password\" {", "  default = \"hunter2\"", "assigned-password"),
    ] {
        assert_eq!(rules(path, name, value), [(rule.to_owned(), Some(2))], "{name}");
    }
    for (name, value) in [
        ("  - name: DB_PASSWORD", "    valueFrom: secret2"),
        ("  - name: DB_PASSWORD", "    value: ${DB_PASSWORD}"),
        ("  - name: LEVEL", "    value: hunter2hunter"),
    ] {
        assert!(rules("a.yaml", name, value).is_empty(), "{name}");
    }
}

#[test]
fn password_placeholders_are_ignored() {
    for line in [
        "password = \"\"",
        "password: str = ''",
        "password = os.environ[\"DB_PASSWORD1\"]",
        "password = os.environ.get('PASSWORD_2', '')",
        "password = process.env.PASSWORD1",
        "password = settings.DB_PASSWORD2",
        "password = getpass.getpass()",
        "password = input(\"Password1: \")",
        "password = \"${DB_PASSWORD1}\"",
        "password = \"$DB_PASSWORD1\"",
        "password: ${PASSWORD1}",
        "password: \"{{ vault_password1 }}\"",
        "password = \"changeme1\"",
        "password = \"your-password-here-1\"",
        "password = \"<password1>\"",
        "password = \"test1234\"",
        "password = \"password\"",
        "password: string;",
        "password: uint64",
        "fn login(user: &str, password: &str) -> bool",
        "self.password = password",
        "login(password=password)",
        "\"password\": \"varchar(255)\"",
        "\"password\": \"Passwort\"",
        "password_hash = \"argon2id\"",
        "pwd = \"/usr/src/app1\"",
        "postgres://user:password@localhost/db",
        "postgres://user:{password1}@localhost/db",
        "http://localhost:3000/@scope/p1",
        "curl -u user:password https://host/",
        "curl -u \"$NAME:$TOKEN1\" https://host/",
        "git clone git@host.org:x/y2.git",
    ] {
        assert_eq!(found(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn paths_placeholders_and_stubs_are_detected() {
    for (rule, line) in [
        ("home-path", "root = '/home/jo/project'"),
        ("home-path", "open(\"/Users/jo/x\")"),
        ("home-path", concat!("/ro", "ot/notes/x")),
        ("home-folder", "p = \"/home/erik\""),
        ("home-folder", "cd /Users/erik"),
        ("windows-path", "p = 'C:\\Users\\jo\\x'"),
        ("windows-path", "p = \"C:\\\\Users\\\\jo\""),
        ("wsl-path", "/mnt/c/Users/jo"),
        ("file-url", "file:///home/jo/x"),
        ("temp-path", "/var/folders/ab/cdef_1/T"),
        ("elided-code", "# ... rest of the function"),
        ("elided-code", "    // ... existing code ..."),
        ("elided-code", "... (remaining methods)"),
        ("elided-code-words-first", "// rest of the code remains the same"),
        ("elided-code-words-first", "# existing imports"),
        ("paste-marker", "<insert your code here>"),
        ("chat-fence", "Certainly! I will help."),
        ("chat-fence", "Here is the updated file:"),
        ("unfinished-code", concat!("to", "do!()")),
        ("unfinished-code", "# TODO: write this"),
        ("unfinished-code", "raise NotImplementedError()"),
        ("abrupt-exit", "    os._exit(0)"),
        ("abrupt-exit", "Runtime.getRuntime().halt(0);"),
        ("abrupt-exit", "process.exitCode = 0;"),
        ("test-runner-override", "def pytest_sessionfinish(session, exitstatus):"),
        ("test-runner-override", "session.exitstatus = 0"),
        ("test-runner-override", "pytest.skip(\"x\", allow_module_level=True)"),
        ("test-runner-override", "sys.exit = lambda code: None"),
        ("hidden-characters", "a\u{200b}b"),
        ("hidden-characters", "\u{1b}[2J"),
        ("long-line", &"x".repeat(20_000)),
    ] {
        assert!(found(line).iter().any(|it| it == rule), "{rule}: {:?} in {line}", found(line));
    }
}

#[test]
fn ordinary_lines_have_no_findings() {
    for line in [
        "let token = lexer.next_token();",
        "password = os.environ[\"PASSWORD\"]",
        "password: str = \"\"",
        "api_key = config.api_key",
        "API_KEY = \"${API_KEY}\"",
        "secret = 'changeme'",
        "password = \"aaaaaaaaaaaaaaaa\"",
        "https://example.com:8080/path",
        "postgres://user:${PASSWORD}@localhost/db",
        "import { home } from './home/index'",
        "url = f\"{base}/home/user/profile\"",
        "<a href=\"/home/index.html\">",
        "route(\"/home\")",
        "open(\"/homepage\")",
        "#!/usr/bin/env python3",
        "prefix = \"/usr/local/bin\"",
        "def authorization(self): ...",
        "return ...",
        "for i in range(0, n): pass",
        "let rest = &items[1..];",
        "// the rest is history",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "id = \"550e8400-e29b-41d4-a716-446655440000\"",
        "method = \"todos.list\"",
        "x = '\u{2026}'",
        "\"id\": \"msg_01x7Kp2mQ9vR4tZ1bN8cW3yL\"",
        "cache_key = \"9f86d081884c7d659a2feaa0c55ad015\"",
        "task-key-name",
        "risk-assessment",
        "sys.exit(0)",
        "if process.exit == handler:",
        "fn login(user: &str, password: &str) -> Token {",
        "KEYWORDS = ['pass', 'return', 'yield']",
        "you can pass `spec=True` to it",
        "records are identified by their name",
        "a.py,sha256=K5-S0H72KHZH9WPAcHL5jCtcNyoBZSMe7VmxGn8x",
    ] {
        assert_eq!(found(line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn the_allow_comment_turns_a_rejection_into_an_escalation() {
    let severity = |line: &str| scan("a.txt", &[(1, line.to_owned())])[0].severity;
    assert_eq!(severity("p = '/home/jo/x'"), Severity::Reject);
    assert_eq!(severity("p = '/home/jo/x'  # draft-gate:allow"), Severity::Escalate);
}

/// All lines must be scanned, but the list of findings must be truncated.
#[test]
fn the_number_of_findings_is_bounded() {
    let lines: Vec<(u32, String)> =
        (1..10_000).map(|it| (it, "p = '/home/jo/x'".to_owned())).collect();
    let findings = scan("a.txt", &lines);
    assert_eq!(findings.len(), 21);
    assert_eq!((findings[20].rule.as_str(), findings[20].severity), ("left-out", Severity::Note));
    assert!(findings[20].text.starts_with("9979 more"), "{}", findings[20].text);
}

#[test]
fn minor_findings_do_not_hide_severe_ones() {
    let mut lines: Vec<(u32, String)> = (1..100).map(|it| (it, "# TODO: x".to_owned())).collect();
    lines.push((100, format!("key = 'AKIA{}'", random(16, UPPER))));
    let first = &scan("a.txt", &lines)[0];
    assert_eq!(
        (first.rule.as_str(), first.severity, first.line),
        ("aws-access-key", Severity::Reject, Some(100))
    );
}

#[test]
fn long_lines_are_scanned_completely() {
    let key = format!("AKIA{}", random(16, UPPER));
    for length in [16_000, 16_370, 16_384, 15_360, 40_000] {
        let line = format!("{} {key} {}", "é ".repeat(length / 3), "x ".repeat(10_000));
        let rules = found(&line);
        assert_eq!(rules.iter().filter(|it| *it == "aws-access-key").count(), 1, "{length}");
        assert!(rules.iter().any(|it| it == "long-line"), "{length}");
    }
}

#[test]
fn quotes_contain_no_secrets_and_no_control_characters() {
    let key = format!("AKIA{}", random(16, UPPER));
    let line = format!("# ... rest of the code {key}");
    let findings = scan("a.txt", &[(1, line)]);
    let rules: Vec<&str> = findings.iter().map(|it| it.rule.as_str()).collect();
    assert!(rules.contains(&"elided-code") && rules.contains(&"aws-access-key"), "{rules:?}");
    assert!(findings.iter().all(|it| !it.text.contains(&key)), "{findings:?}");
    let findings = scan("a.txt", &[(1, "# ... rest \u{1b}]0;x\u{7}\u{1b}[2J\u{202e}".to_owned())]);
    let quoting = findings.iter().find(|it| it.rule == "elided-code").unwrap();
    assert!(quoting.text.contains("rest \\u{1b}]0;x"), "{}", quoting.text);
    assert!(!quoting.text.chars().any(|it| it.is_control() || it == '\u{202e}'));
}

#[test]
fn secrets_in_the_line_after_their_name_are_detected() {
    let value = random(24, MIXED);
    let rules = |path: &str, lines: [&str; 2]| -> Vec<String> {
        let lines = [(7, lines[0].to_owned()), (8, lines[1].to_owned())];
        scan(path, &lines).into_iter().map(|it| it.rule).collect()
    };
    let quoted = format!("    \"{value}\"");
    for (path, name, line) in [
        ("a.py", "API_KEY = (", &quoted),
        ("a.py", "API_KEY = \\", &quoted),
        ("a.ts", "const apiKey: string =", &quoted),
        ("a.py", "    \"api_key\":", &quoted),
        ("a.py", "key = os.environ.get(\"API_KEY\",", &quoted),
        ("a.yaml", "api_key: >-", &format!("  {value}")),
        ("a.yaml", "api_key: |", &format!("  {value}")),
        ("a.sh", "run --api-key \\", &format!("  {value}")),
    ] {
        assert_eq!(rules(path, [name, line]), ["assigned-secret"], "{path}: {name}");
    }
    // The line after the name is unknown, so the value may belong to another name.
    let apart = [(7, "API_KEY = (".to_owned()), (9, quoted)];
    assert_eq!(scan("a.py", &apart), []);
    for (path, name, line) in [
        ("a.py", "token = (", "    \"the name of the token\""),
        ("a.yaml", "password:", "  minimum: 8"),
        ("a.py", "def login(password,", "          retries=3):"),
        ("a.rs", "let token =", "    next_token(input)?;"),
        ("a.md", "Set the password:", "\"Save\" stores it."),
        ("a.json", "  \"password\": {", "    \"type\": \"string\","),
        ("a.yaml", "password:", "  \"type\": string"),
        ("a.rb", "password = {", "  'label' => 'Wort',"),
    ] {
        assert_eq!(rules(path, [name, line]), [""; 0], "{path}: {name}");
    }
}

#[test]
fn secrets_are_attributed_to_the_previous_line_only_if_it_has_their_name() {
    let texts = |path: &str, lines: [&str; 2]| -> Vec<String> {
        let lines = [(7, lines[0].to_owned()), (8, lines[1].to_owned())];
        scan(path, &lines).into_iter().map(|it| it.text).collect()
    };
    let value = random(24, MIXED);
    for (path, before, line) in [
        ("a.json", "  \"database\": {", format!("    \"password\": \"{value}\",")),
        ("a.sh", "docker run \\", format!("  -e PASSWORD={value}")),
    ] {
        let found = texts(path, [before, &line]);
        assert!(!found.is_empty(), "{path}");
        assert!(found.iter().all(|it| !it.contains("earlier line")), "{path}: {found:?}");
    }
    let line = format!("    \"{value}\"  # draft-gate:allow");
    let found = texts("a.py", ["API_KEY = (", &line]);
    assert_eq!(found.len(), 1, "{found:?}");
    let end = "which starts in an earlier line; the line requests an exception";
    assert!(found[0].ends_with(end), "{found:?}");
}

/// A value may follow its name after other lines of the same statement, object, table or section.
#[test]
fn secrets_some_lines_after_their_name_are_detected() {
    let value = random(24, MIXED) + "7a";
    let count = |path: &str, text: &str| {
        let lines: Vec<_> =
            (1..).zip(text.replace("VALUE", &value).lines().map(str::to_owned)).collect();
        scan(path, &lines).len()
    };
    for (path, text) in [
        ("a.tf", "variable \"db_password\" {\n  type = string\n  default = \"VALUE\"\n}"),
        ("a.json", "{\"name\": \"API_TOKEN\",\n \"value\": \"VALUE\"}"),
        ("a.xml", "<password>\n  VALUE\n</password>"),
        ("a.md", "## Password\n\nVALUE"),
        ("a.md", "| User | Password |\n|---|---|\n| a | VALUE |"),
        ("a.csv", "user,password\na,VALUE"),
        ("a.sh", "curl -X POST \\\n  --fail \\\n  -u user:VALUE \\\n  https://x.example"),
        ("a.sh", "passwd user <<EOF\nVALUE\nEOF"),
        ("a.yaml", "apiVersion: v1\ndata:\n  x: VALUE\nkind: Secret"),
        ("a.py", "token = (\n    \"ghp_\"\n    \"VALUE0123456789\"\n)"),
    ] {
        assert_eq!(count(path, text), 1, "{path}: {text}");
    }
    for (path, text) in [
        ("a.tf", "variable \"db_password\" {\n}\n  default = \"VALUE\""),
        ("a.md", "## Password\n\nSome text.\n\nVALUE"),
        ("a.md", "| User | Password |\n\n| a | VALUE |"),
        ("a.yaml", "data:\n  x: VALUE\nkind: ConfigMap"),
        ("a.yaml", "kind: Secret\n---\nkind: ConfigMap\ndata:\n  x: VALUE"),
    ] {
        assert_eq!(count(path, text), 0, "{path}: {text}");
    }
}
