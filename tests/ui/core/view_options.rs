use opaque_id_core::View;

struct User;

#[derive(View)]
#[view(from = User)]
struct UserView {
    #[view(rename = "title", given)]
    name: String,
    #[view(skip)]
    other: String,
}

#[derive(View)]
struct WithoutAModel {
    name: String,
}

struct Row {
    author_name: String,
}

#[derive(View)]
#[view(part)]
struct Author {
    name: String,
    biography: String,
}

#[derive(View)]
#[view(from = Row)]
struct ARowWithoutThatColumn {
    #[view(prefix = "author_")]
    author: Author,
}

#[derive(View)]
#[view(from = Row)]
struct NoPart {
    #[view(prefix = "author_")]
    author: WithoutAModel,
}

#[derive(View)]
#[view(from = Row)]
struct PartThatIsAlwaysThere {
    #[view(prefix = "author_")]
    author: Option<Nothing>,
}

#[derive(View)]
#[view(part)]
struct Nothing {
    name: Option<String>,
}

#[derive(View)]
#[view(from = Row)]
struct PartInABox {
    #[view(prefix = "author_")]
    author: Box<Author>,
}

struct Required {
    author_name: String,
    author_biography: String,
}

#[derive(View)]
#[view(from = Required)]
struct OptionalPartOfRequiredColumns {
    #[view(prefix = "author_")]
    author: Option<Author>,
}

#[derive(View)]
#[view(part)]
struct PartOfAPart {
    #[view(prefix = "author_")]
    author: Author,
}

#[derive(View)]
#[view(from = Row)]
struct PartWhosePrefixIsNoName {
    #[view(prefix = "author-")]
    author: Author,
}

#[derive(View)]
#[view(from = Row)]
struct OptionGivenTwice {
    #[view(prefix = "editor_", prefix = "author_")]
    author: Author,
}

struct Columns;

#[derive(View)]
#[view(from = Row, from = Required, columns = Columns, error = String)]
struct TwoModels {
    #[view(decrypt)]
    author_name: String,
}

#[derive(View)]
#[view(from = Row, columns = Columns)]
struct ColumnsWithoutAnError {
    #[view(decrypt)]
    author_name: String,
}

#[derive(View)]
#[view(from = Row, columns = Columns, error = String)]
struct ModelWithoutAnId {
    #[view(decrypt)]
    author_name: String,
}

#[derive(View)]
#[view(into = AModelAndAViewView, from = Row)]
struct AModelAndAView {}

#[derive(View)]
#[view(into = One, into = Two)]
struct TwoViews {}

#[derive(View)]
#[view(into = RenamedView)]
struct Renamed {
    #[view(rename = "name")]
    title: String,
}

#[derive(View)]
#[view(into = SkippedByNumberView)]
enum SkippedByNumber {
    Password(#[view(skip)] String, String),
}

#[derive(View)]
#[view(into = VariantThatIsSkippedView)]
enum VariantThatIsSkipped {
    #[view(skip)]
    Secret,
}

#[derive(View)]
#[view(into = TrustedView)]
struct Trusted {
    #[serde(with = "opaque_id_core::trusted")]
    owner: String,
}

#[derive(View)]
#[view(into = TreeView)]
struct Tree {
    children: Vec<Self>,
    parent: Option<Box<Tree>>,
}

#[derive(View)]
#[view(into = SkippedView)]
struct Skipped {
    #[view(skip, as = u8)]
    both: u8,
}
