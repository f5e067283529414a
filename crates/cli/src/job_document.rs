//! A job file on its way to a coordinator.
//!
//! The client knows what no coordinator can: the file's name, its folder, the values of its variables,
//! and which line a key stands on. So it fills and checks the document, sends it as JSON with nothing
//! left to fill, and puts the places back into whatever a coordinator complains of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use steadfast_api::{ErrorBody, ErrorDetail};
use steadfast_model::jobfile::{self, JOB_DIR, Position, Problem};

/// One byte more than a job file may have is enough to have it refused for its size.
const MOST_BYTES_READ: u64 = 1024 * 1024 + 1;

/// A job file that is right as far as a client can tell.
#[derive(Debug)]
pub struct JobDocument {
    /// `job.name`.
    pub name: String,
    /// The checked document.
    pub json: String,
    file: String,
    places: BTreeMap<String, Position>,
}

impl JobDocument {
    /// Reads and checks a job file.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the shape in which coordinators say such things.
    pub fn load(path: &Path, variables: &BTreeMap<String, String>) -> Result<Self, ErrorBody> {
        let file = path.display().to_string();
        let text = read(path)
            .map_err(|error| ErrorBody::new(format!("cannot read the job file {file}: {error}")))?;
        let folder = folder(path)?;
        let mut variables = variables.clone();
        if variables.insert(JOB_DIR.to_owned(), folder.clone()).is_some() {
            let message = format!("--set {JOB_DIR} is not possible: it is the job file's folder");
            return Err(ErrorBody::new(message));
        }
        let read = jobfile::read(&text, &variables).map_err(|problems| refused(&file, problems))?;
        let mut document =
            Self { name: read.spec.name, json: read.json, file, places: read.places };
        document.find_programs(Path::new(&folder))?;
        Ok(document)
    }

    /// A program that is named by a relative path lies beside the job file. The members know nothing of
    /// that folder, so the path is made absolute here; a bare name is left for them to find.
    fn find_programs(&mut self, folder: &Path) -> Result<(), ErrorBody> {
        let mut document: Value = serde_json::from_str(&self.json)
            .map_err(|error| ErrorBody::new(format!("the checked document is no JSON: {error}")))?;
        let mut missing = Vec::new();
        for (key, program) in programs(&mut document) {
            let Some(relative) = program.as_str().filter(|program| is_relative_path(program))
            else {
                continue;
            };
            let found = std::path::absolute(folder.join(relative)).unwrap_or_default();
            match found.to_str() {
                Some(path) if is_executable(&found) => *program = Value::from(path),
                _ if found.is_file() => {
                    let message = format!("{0} cannot be executed: chmod +x {0}", found.display());
                    missing.push(self.detail(Some(key), message));
                }
                _ => {
                    let message = format!(
                        "there is no file {}; a relative path is looked up beside the job file",
                        found.display()
                    );
                    missing.push(self.detail(Some(key), message));
                }
            }
        }
        if missing.is_empty() {
            self.json = document.to_string();
            return Ok(());
        }
        Err(body(&self.file, missing))
    }

    /// A coordinator's complaints with the places in the file that the person wrote. The coordinator saw
    /// only the JSON, so its own places mean nothing.
    pub fn with_places(&self, mut refusal: ErrorBody) -> ErrorBody {
        let details = std::mem::take(&mut refusal.details).into_iter();
        let placed = details.map(|ErrorDetail { key, message, .. }| self.detail(key, message));
        refusal.with_details(placed.collect())
    }

    fn detail(&self, key: Option<String>, message: String) -> ErrorDetail {
        let place = key.as_deref().and_then(|key| self.place(key));
        ErrorDetail {
            file: Some(self.file.clone()),
            line: place.map(|at| at.line),
            column: place.map(|at| at.column),
            key,
            message,
        }
    }

    /// The place of a key, or of the nearest one around it that was written.
    fn place(&self, key: &str) -> Option<Position> {
        let mut key = key;
        loop {
            if let Some(at) = self.places.get(key) {
                return Some(*at);
            }
            key = &key[..key.rfind(['.', '['])?];
        }
    }
}

/// For each job file the variables that are meant for it, where several are given the same ones. Each
/// takes what it uses; what none of them uses stays with the first, which then complains.
pub fn share_out(
    paths: &[PathBuf],
    variables: &BTreeMap<String, String>,
) -> Vec<BTreeMap<String, String>> {
    let used: Vec<Option<BTreeSet<String>>> =
        paths.iter().map(|path| used_by(path, variables)).collect();
    let by_nobody = |name: &String| used.iter().flatten().all(|used| !used.contains(name));
    let share = |(index, own): (usize, &Option<BTreeSet<String>>)| {
        let wanted = |name: &String| match own {
            Some(own) => own.contains(name) || (index == 0 && by_nobody(name)),
            None => true,
        };
        variables.clone().into_iter().filter(|(name, _)| wanted(name)).collect()
    };
    used.iter().enumerate().map(share).collect()
}

/// `None` where the file has problems, and will be refused for them.
fn used_by(path: &Path, variables: &BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let mut variables = variables.clone();
    variables.entry(JOB_DIR.to_owned()).or_default();
    let document = steadfast_hocon::parse(&read(path).ok()?).ok()?;
    Some(document.resolve(&variables).ok()?.used)
}

/// A refusal as a person reads it: what, then each problem with its place on a line of its own.
pub fn render(refusal: &ErrorBody) -> String {
    let mut text = refusal.message.clone();
    for ErrorDetail { file, line, column, key, message } in &refusal.details {
        text += "\n";
        let file = file.clone().into_iter();
        let numbers = [line, column].into_iter().flatten().map(ToString::to_string);
        let place: Vec<String> = file.chain(numbers).collect();
        if !place.is_empty() {
            text += &format!("{}: ", place.join(":"));
        }
        if let Some(key) = key {
            text += &format!("{key}: ");
        }
        text += message;
    }
    text
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MOST_BYTES_READ).read_to_end(&mut text)?;
    Ok(text)
}

fn folder(path: &Path) -> Result<String, ErrorBody> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.parent().and_then(Path::to_str);
    folder.map(str::to_owned).ok_or_else(|| {
        ErrorBody::new(format!("the folder of {} has a name that is no text", path.display()))
    })
}

fn refused(file: &str, problems: Vec<Problem>) -> ErrorBody {
    let details = problems.into_iter().map(|Problem { at, key, message }| ErrorDetail {
        file: Some(file.to_owned()),
        line: Some(at.line),
        column: Some(at.column),
        key,
        message,
    });
    body(file, details.collect())
}

fn body(file: &str, details: Vec<ErrorDetail>) -> ErrorBody {
    let count = match details.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    ErrorBody::new(format!("the job file {file} has {count}; nothing was submitted"))
        .with_details(details)
}

/// The first word of each command, with its key. The shape is that of a checked document.
fn programs(document: &mut Value) -> impl Iterator<Item = (String, &mut Value)> {
    list(document, "pipelines").enumerate().flat_map(|(pipeline, value)| {
        list(value, "tasks").enumerate().filter_map(move |(task, value)| {
            let key = format!("pipelines[{pipeline}].tasks[{task}].command[0]");
            Some((key, list(value, "command").next()?))
        })
    })
}

fn list<'v>(value: &'v mut Value, key: &str) -> impl Iterator<Item = &'v mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn is_relative_path(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn job(task: &str) -> String {
        format!(
            "env.job.name = j\npipelines = [{{ name = p, tasks = [\n{{ name = t, {task} }}\n] }}]"
        )
    }

    fn load(folder: &Path, text: &str, set: &[(&str, &str)]) -> Result<JobDocument, ErrorBody> {
        let path = folder.join("job.conf");
        fs::write(&path, text).unwrap();
        let variables: BTreeMap<String, String> =
            set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        JobDocument::load(&path, &variables)
    }

    fn commands(document: &JobDocument) -> Vec<String> {
        let mut json: Value = serde_json::from_str(&document.json).unwrap();
        programs(&mut json).map(|(_, program)| program.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_program_beside_the_job_file_is_found_and_a_bare_name_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = folder.path().join("bin/reader");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let there = folder.path().join("bin/reader").display().to_string();
        for (written, sent) in [
            ("./bin/reader", there.as_str()),
            ("bin/reader", &there),
            (r#"${JOB_DIR}"/bin/reader""#, &there),
            ("/no/such/program", "/no/such/program"),
            ("reader", "reader"),
        ] {
            let text = job(&format!("command = [{written}, ./bin/reader]"));
            let document = load(folder.path(), &text, &[]).unwrap();
            assert_eq!(commands(&document), [sent]);
            // Arguments are the program's business.
            assert!(document.json.contains(r#","./bin/reader"]"#), "{}", document.json);
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_refused_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("text"), "").unwrap();
        for (program, complaint) in
            [("./gone", "/gone; a relative path"), ("./text", "text cannot be executed: chmod +x")]
        {
            let command = format!("command = [{program}]");
            let refusal = load(folder.path(), &job(&command), &[]).unwrap_err();
            let [problem] = refusal.details.as_slice() else { panic!("{refusal:?}") };
            assert_eq!((problem.line, problem.column), (Some(3), Some(23)));
            assert_eq!(problem.key.as_deref(), Some("pipelines[0].tasks[0].command[0]"));
            assert!(problem.message.contains(complaint), "{}", problem.message);
        }
    }

    #[test]
    fn a_refusal_names_file_line_column_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = load(folder.path(), &job("comand = [x]"), &[("X", "1")]).unwrap_err();
        let file = folder.path().join("job.conf").display().to_string();
        let text = render(&refusal);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], format!("the job file {file} has 3 problems; nothing was submitted"));
        assert!(lines[1].starts_with(&format!("{file}:1:1: --set X fills nothing")), "{text}");
        let key = "pipelines[0].tasks[0].command: this key is missing";
        assert!(lines[2].starts_with(&format!("{file}:3:1: {key}")), "{text}");
        let key = "pipelines[0].tasks[0].comand: unknown key (did you mean command?)";
        assert!(lines[3].starts_with(&format!("{file}:3:13: {key}")), "{text}");
    }

    #[test]
    fn a_coordinators_complaint_gets_the_place_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let document = load(folder.path(), &job("command = [x, y]"), &[]).unwrap();
        let complaint = |key: Option<&str>| {
            let detail = ErrorDetail {
                file: None,
                line: Some(1),
                column: Some(99),
                key: key.map(str::to_owned),
                message: "no".into(),
            };
            let body = ErrorBody::new("refused").with_details(vec![detail]);
            let body = document.with_places(body);
            (body.details[0].line, body.details[0].column)
        };
        assert_eq!(complaint(Some("env.job.name")), (Some(1), Some(16)));
        assert_eq!(complaint(Some("pipelines[0].tasks[0].command[1]")), (Some(3), Some(23)));
        // What was left out is shown where it would stand.
        assert_eq!(complaint(Some("env.job.mode")), (Some(1), Some(1)));
        assert_eq!(complaint(Some("unknown.key")), (None, None));
        assert_eq!(complaint(None), (None, None));
    }

    #[test]
    fn several_files_share_the_variables() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let paths = [write("a", "x = ${A}"), write("b", "x = ${B}, y = ${?A}")];
        let variables: BTreeMap<String, String> =
            ["A", "B", "C"].iter().map(|name| ((*name).to_owned(), String::new())).collect();
        // `a` alone lacks nothing, `b` neither; C is nobody's.
        let shares = share_out(&paths, &variables);
        let names = |share: &BTreeMap<String, String>| share.keys().cloned().collect::<String>();
        assert_eq!((names(&shares[0]), names(&shares[1])), ("AC".into(), "AB".into()));
    }
}
