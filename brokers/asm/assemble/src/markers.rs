//! Markers of regions: IACA's byte sequences in code, LLVM-MCA's comments in assembly text.

/// `mov ebx, 111; fs addr32 nop`: a region starts after it.
const IACA_START: [u8; 8] = [0xbb, 0x6f, 0, 0, 0, 0x64, 0x67, 0x90];
/// `mov ebx, 222; fs addr32 nop`: a region ends before it.
const IACA_END: [u8; 8] = [0xbb, 0xde, 0, 0, 0, 0x64, 0x67, 0x90];

/// Finds the ranges between IACA's markers in code.
///
/// # Errors
/// A text when starts and ends do not alternate.
pub fn iaca(code: &[u8]) -> Result<Vec<std::ops::Range<usize>>, String> {
    let mut found = Vec::new();
    let mut open = None;
    for (at, window) in code.windows(8).enumerate() {
        if window == IACA_START {
            if let Some(start) = open {
                return Err(format!(
                    "a second IACA start marker at {at:#x}, after the one at {:#x}",
                    start - 8
                ));
            }
            open = Some(at + 8);
        } else if window == IACA_END {
            match open.take() {
                Some(start) => found.push(start..at),
                None => return Err(format!("an IACA end marker at {at:#x} without a start")),
            }
        }
    }
    match open {
        None => Ok(found),
        Some(start) => Err(format!(
            "the IACA start marker at {:#x} has no end marker",
            start - 8
        )),
    }
}

/// A region that comments in assembly text mark, as labels that stand in the comments' place.
#[derive(Debug, PartialEq, Eq)]
pub struct Marked {
    /// Name behind the marker; empty without one.
    pub name: String,
    /// Label where it starts.
    pub start: String,
    /// Label where it ends.
    pub end: String,
}

/// Puts labels in the place of LLVM-MCA's comments, line by line, so that the assembler's messages
/// keep their line numbers. Regions with different names may overlap, as in llvm-mca.
///
/// # Errors
/// A text with the line.
pub fn llvm(text: &str) -> Result<(String, Vec<Marked>), String> {
    let mut out = String::with_capacity(text.len());
    let mut regions: Vec<Marked> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        match marker(line) {
            None if line.contains("LLVM-MCA-BEGIN") || line.contains("LLVM-MCA-END") => {
                return Err(format!(
                    "line {number}: an LLVM-MCA marker must be a comment on a line of its own"
                ));
            }
            None => out.push_str(line),
            Some((true, name)) => {
                if let Some((_, at)) = open.iter().find(|(i, _)| regions[*i].name == name) {
                    return Err(format!(
                        "line {number}: the region {name:?} was begun on line {at} and not ended"
                    ));
                }
                let id = regions.len();
                let label = |what| format!("mcad_region_{id}_{what}");
                regions.push(Marked {
                    name: name.to_owned(),
                    start: label("start"),
                    end: label("end"),
                });
                open.push((id, number));
                out.push_str(&label("start"));
                out.push(':');
            }
            Some((false, name)) => {
                let at = if name.is_empty() && open.len() == 1 {
                    Some(0)
                } else {
                    open.iter().position(|(i, _)| regions[*i].name == name)
                };
                let Some(at) = at else {
                    return Err(format!(
                        "line {number}: the region {name:?} ends here and did not begin"
                    ));
                };
                let (id, _) = open.remove(at);
                out.push_str(&regions[id].end);
                out.push(':');
            }
        }
        out.push('\n');
    }
    match open.first() {
        None => Ok((out, regions)),
        Some((id, line)) => Err(format!(
            "line {line}: the region {:?} is begun here and never ended",
            regions[*id].name
        )),
    }
}

/// Whether a line is a marker: begin or end, and the name.
fn marker(line: &str) -> Option<(bool, &str)> {
    let line = line.trim();
    let comment = line
        .strip_prefix('#')
        .or_else(|| line.strip_prefix("//"))
        .or_else(|| line.strip_prefix("/*")?.strip_suffix("*/"))?;
    let comment = comment.trim_start_matches('#').trim();
    let (begin, name) = match comment.strip_prefix("LLVM-MCA-BEGIN") {
        Some(name) => (true, name),
        None => (false, comment.strip_prefix("LLVM-MCA-END")?),
    };
    (name.is_empty() || name.starts_with(char::is_whitespace)).then_some((begin, name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_labels_on_their_lines() {
        let (text, regions) =
            llvm("nop\n# LLVM-MCA-BEGIN  hot loop\nadd\n  # LLVM-MCA-END\n// LLVM-MCA-BEGIN\n//LLVM-MCA-END")
                .unwrap();
        assert_eq!(
            text,
            "nop\nmcad_region_0_start:\nadd\nmcad_region_0_end:\nmcad_region_1_start:\n\
             mcad_region_1_end:\n"
        );
        assert_eq!(regions[0].name, "hot loop");
        assert_eq!(regions[1].name, "");
    }

    #[test]
    fn unbalanced_comments_are_placed() {
        let error = |text| llvm(text).unwrap_err();
        assert!(error("# LLVM-MCA-BEGIN a\n").starts_with("line 1: the region \"a\" is begun"));
        assert!(error("# LLVM-MCA-END").starts_with("line 1: the region \"\" ends here"));
        assert!(error("# LLVM-MCA-BEGIN a\n# LLVM-MCA-BEGIN a").contains("was begun on line 1"));
        assert!(error("nop # LLVM-MCA-BEGIN").contains("line of its own"));
    }

    #[test]
    fn iaca_markers_alternate() {
        let code = [&IACA_START[..], &[0x90, 0x90], &IACA_END].concat();
        let range = iaca(&code).unwrap().remove(0);
        assert_eq!(range, 8..10);
        assert_eq!(iaca(&[0x90]), Ok(vec![]));
        assert!(iaca(&code[..10]).is_err());
        assert!(iaca(&code[8..]).is_err());
        assert!(iaca(&[IACA_START, IACA_START].concat()).is_err());
    }
}
